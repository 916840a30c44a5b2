"""A state that was saved by a wrapper."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 1))
state = {"module." + name: value for name, value in model.state_dict().items()}
model.load_state_dict(state)
