"""A parameter in two groups."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(2, 2)
fl.optim.SGD([{"params": model.parameters()}, {"params": [model.bias], "lr": 0.01}], lr=0.1)
