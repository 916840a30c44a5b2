"""A layer of the second stage does not fit."""

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import GPipe

layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(6, 2))
model = GPipe(layers, balance=[2, 1], devices=["cpu", "cpu"], chunks=2)
model(fl.zeros(4, 4))
