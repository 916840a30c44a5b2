"""A comparison of tensors as a condition."""

import flambeau as fl

x = fl.tensor([1.0, 2.0])
if x > 1.5:
    x = x - 1
