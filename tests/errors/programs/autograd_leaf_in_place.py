"""A parameter is written to while gradients are recorded."""

import flambeau as fl

weight = fl.zeros(3, requires_grad=True)
weight += 1
