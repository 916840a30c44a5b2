"""A function among the layers of a Sequential."""

import flambeau as fl
from flambeau import nn

nn.Sequential(nn.Linear(2, 2), fl.relu)
