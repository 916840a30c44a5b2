"""Losses are summed with their graphs."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(4, 1)
total = 0.0
for step in range(50):
    loss = model(fl.ones(8, 4)).square().mean()
    total = total + loss
print(fl.graph_owners())
