"""A module without forward()."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)


model = nn.Sequential(nn.Linear(2, 2), Net())
model(fl.zeros(1, 2))
