"""Sizes that do not broadcast."""

import flambeau as fl

weights = fl.zeros(3, 4)
bias = fl.zeros(3)
weights + bias
