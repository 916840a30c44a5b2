"""The encoder's second block does not fit the first."""

import flambeau as fl
from flambeau import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(16, 32), nn.ReLU()), nn.Sequential(nn.Linear(64, 8), nn.ReLU())])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x)


model = Model()
model(fl.zeros(4, 16))
