"""A model where its state is wanted."""

import flambeau as fl
from flambeau import nn

nn.Linear(2, 2).load_state_dict(nn.Linear(2, 2))
