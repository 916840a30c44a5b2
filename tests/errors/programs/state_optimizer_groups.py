"""The state of an optimizer of another model."""

import flambeau as fl
from flambeau import nn

small, large = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
state = fl.optim.Adam(small.parameters()).state_dict()
fl.optim.Adam(large.parameters()).load_state_dict(state)
