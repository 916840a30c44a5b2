"""A hook gives back a gradient of another shape."""

import flambeau as fl

x = fl.ones(2, 3, requires_grad=True)
x.register_hook(lambda grad: grad.sum(0))
(x * 2).sum().backward()
