"""Batch norm over another number of channels than the convolution gives."""

import flambeau as fl
from flambeau import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.norm = nn.BatchNorm2d(32)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


model = nn.Sequential(Block(), nn.Flatten())
model(fl.zeros(2, 3, 8, 8))
