"""BatchNorm2d is given a batch of vectors."""

import flambeau as fl
from flambeau import nn

nn.Sequential(nn.Linear(8, 16), nn.BatchNorm2d(16))(fl.zeros(4, 8))
