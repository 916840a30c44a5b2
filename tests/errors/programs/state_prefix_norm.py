"""A state that a wrapper saved, of a model that counts its batches."""

import flambeau as fl
from flambeau import nn


def model():
    return nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))


state = {"module." + name: value for name, value in model().state_dict().items()}
model().load_state_dict(state)
