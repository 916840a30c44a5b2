"""A mistake inside of what is compiled."""

import flambeau as fl
from flambeau import nn

model = fl.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(4, 2)))
model(fl.zeros(3, 4))
