"""A tensor is assigned over a parameter."""

import flambeau as fl
from flambeau import nn

layer = nn.Linear(2, 2)
layer.weight = fl.zeros(2, 2)
