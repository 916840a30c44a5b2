"""A head for another number of classes."""

import flambeau as fl
from flambeau import nn

pretrained = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1000))
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 10))
model.load_state_dict(pretrained.state_dict())
