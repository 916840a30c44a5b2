"""A gradient of another shape is assigned."""

import flambeau as fl

weight = fl.zeros(2, 3, requires_grad=True)
weight.grad = fl.zeros(3, 2)
