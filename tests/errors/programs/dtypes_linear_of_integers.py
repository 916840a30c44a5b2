"""Pixels as they were read."""

import flambeau as fl
from flambeau import nn

pixels = fl.zeros(4, 784, dtype=fl.uint8)
nn.Sequential(nn.Linear(784, 10))(pixels)
