"""A gradient of another shape is given to backward()."""

import flambeau as fl

y = fl.ones(2, 3, requires_grad=True) * 2
y.backward(fl.ones(3))
