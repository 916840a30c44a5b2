"""A GPU that is not there."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(4, 2)
model.to("cuda")
