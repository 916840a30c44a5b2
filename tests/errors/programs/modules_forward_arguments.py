"""A module is called without an argument of its forward()."""

import flambeau as fl
from flambeau import nn


class Decoder(nn.Module):
    def forward(self, x, memory):
        return x + memory


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = Decoder()

    def forward(self, x):
        return self.decoder(x)


Model()(fl.zeros(2))
