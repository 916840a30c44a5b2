"""The image has shrunk below the size of the kernel."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.Conv2d(4, 8, 5), nn.MaxPool2d(2), nn.Conv2d(8, 8, 5))
model(fl.zeros(1, 1, 28, 28))
