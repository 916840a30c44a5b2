"""A model without memory is given a tensor with some."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(4, 8, device="meta"), nn.ReLU())
model(fl.zeros(2, 4))
