"""An optimizer of nothing: the layers are in an ordinary list."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]


fl.optim.SGD(Net().parameters(), lr=0.1)
