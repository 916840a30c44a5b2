"""A balance that does not sum to the number of layers."""

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import GPipe

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
GPipe(model, balance=[2, 2], devices=["cpu", "cpu"], chunks=4)
