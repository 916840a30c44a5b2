"""Tensors that differ in another dimension than the one they are joined along."""

import flambeau as fl

left = fl.zeros(4, 3)
right = fl.zeros(5, 3)
fl.cat([left, right], dim=1)
