"""The gradient by a tensor that does not require one."""

import flambeau as fl

x = fl.ones(2, requires_grad=True)
mean = fl.zeros(2)
fl.autograd.grad((x - mean).square().sum(), mean)
