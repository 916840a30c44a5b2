"""Losses are kept in a list with their graphs."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
history = []
for step in range(10):
    loss = model(fl.ones(32, 64)).square().mean()
    loss.backward(retain_graph=True)
    history.append(loss)
print(fl.graph_owners())
