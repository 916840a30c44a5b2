"""Graphs: what the tests of `flambeau.fx` share."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.functional.relu
        self.register_buffer("shift", fl.arange(4.0))

    def forward(self, x, scale=2.0):
        return self.act(self.fc(x)) * scale + self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.named = nn.ModuleDict({"a-b": nn.ReLU(), "k": nn.Linear(4, 2)})
        self.p = nn.Parameter(fl.ones(4))
        self.plain = fl.full((4,), 0.5)

    def forward(self, x, *, extra=None):
        for block in self.blocks:
            x = block(x, scale=3.0) + x
        x = self.named["a-b"](self.seq(x)) + self.p + self.plain + self.blocks[0].fc.bias
        return self.named["k"](x)


@pytest.fixture
def net():
    fl.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    return fl.sin(fl.arange(12.0)).reshape(3, 4)
