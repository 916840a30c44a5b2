"""Training with batch norm on a last batch of one sample."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU())
model(fl.zeros(1, 8))
