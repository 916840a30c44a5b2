"""A learning rate below zero."""

import flambeau as fl
from flambeau import nn

fl.optim.Adam(nn.Linear(2, 2).parameters(), lr=-1e-3)
