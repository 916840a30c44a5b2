"""Nesterov's momentum without momentum."""

import flambeau as fl
from flambeau import nn

fl.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1, nesterov=True)
