"""A layer in the middle expects more features than the one before it makes."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(128, 10))
model(fl.zeros(32, 784))
