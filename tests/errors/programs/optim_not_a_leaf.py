"""The optimizer gets a result in place of a parameter."""

import flambeau as fl

weight = fl.randn(3, requires_grad=True) * 0.1
fl.optim.SGD([weight], lr=0.1)
