"""A model without memory is moved to where it would need some."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(4, 8, device="meta"), nn.ReLU())
model.to("cpu")
