"""One pooling layer too many."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2))
model(fl.zeros(1, 3, 8, 8))
