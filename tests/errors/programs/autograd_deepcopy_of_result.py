"""A copy of a model that keeps a result of its own."""

import copy

import flambeau as fl
from flambeau import nn

model = nn.Linear(2, 2)
model.last = model(fl.ones(1, 2))
copy.deepcopy(model)
