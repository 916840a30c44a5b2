"""Grey images are given to a network for colour images."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3))
model(fl.zeros(8, 1, 32, 32))
