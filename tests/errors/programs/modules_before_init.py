"""A layer is assigned before super().__init__()."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(2, 2)


Net()
