"""A tensor in place of a list of tensors."""

import flambeau as fl

weight = fl.zeros(3, requires_grad=True)
fl.optim.SGD(weight, lr=0.1)
