"""A model in half precision, and an input that is not."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).half()
model(fl.zeros(1, 3, 8, 8))
