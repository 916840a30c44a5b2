"""Token numbers that have become floats."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 2))
model(fl.tensor([1.0, 5.0, 7.0]))
