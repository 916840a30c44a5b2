"""A part of a parameter is written to while gradients are recorded."""

import flambeau as fl
from flambeau import nn

layer = nn.Linear(3, 2)
layer.weight[0] = 0
