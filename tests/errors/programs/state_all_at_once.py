"""A state that differs in every way."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)


state = Net(16).state_dict()
state["encode.weight"] = state.pop("encoder.weight")
del state["norm.bias"]
state["step"] = fl.tensor(3)
Net(8).load_state_dict(state)
