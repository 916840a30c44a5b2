"""Floating point operations of modules, forward and backward, beside PyTorch's counts."""

from __future__ import annotations

import importlib

import pytest
from beside import torch

import flambeau as fl

MODELS = {
    "convolutions": (lambda nn: nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3)), (2, 3, 6, 6)),
    "linear": (lambda nn: nn.Sequential(nn.Linear(5, 7), nn.Sequential(nn.Linear(7, 3, bias=False), nn.Tanh())), (4, 5)),
    "three axes": (lambda nn: nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 2)), (2, 3, 5)),
}


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", MODELS)
def test_totals_of_modules(name, backward):
    def run(lib):
        make, shape = MODELS[name]
        model, x = make(lib.nn), lib.ones(shape, requires_grad=True)
        with importlib.import_module(f"{lib.__name__}.utils.flop_counter").FlopCounterMode(display=False) as counter:
            y = model(x)
            if backward:
                y.sum().backward()
        return counter.get_total_flops(), {module: sum(ops.values()) for module, ops in counter.get_flop_counts().items()}

    assert run(fl) == run(torch)
