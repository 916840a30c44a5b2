"""A model where its parameters are wanted."""

import flambeau as fl
from flambeau import nn

fl.optim.SGD(nn.Linear(2, 2), lr=0.1)
