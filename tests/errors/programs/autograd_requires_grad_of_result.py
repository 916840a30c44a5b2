"""requires_grad is switched off for a result."""

import flambeau as fl

y = fl.ones(2, requires_grad=True) * 3
y.requires_grad = False
