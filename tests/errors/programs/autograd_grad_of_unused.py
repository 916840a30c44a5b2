"""The gradient by a tensor that has no part in the result."""

import flambeau as fl

x = fl.ones(2, requires_grad=True)
unused = fl.ones(2, requires_grad=True)
fl.autograd.grad((x * 2).sum(), [x, unused])
