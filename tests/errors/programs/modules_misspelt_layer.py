"""A layer is called by a name that is almost its own."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(2, 2)

    def forward(self, x):
        return self.encode(x)


Net()(fl.zeros(1, 2))
