"""Schedules that are made anew with `last_epoch`, as scripts resume, give PyTorch's rates."""

from __future__ import annotations

import pytest
from beside import torch

import flambeau as fl

MADE = {
    "StepLR": lambda s, o, **k: s.StepLR(o, 3, 0.5, **k), "MultiStepLR": lambda s, o, **k: s.MultiStepLR(o, [2, 4, 4], 0.5, **k), "ExponentialLR": lambda s, o, **k: s.ExponentialLR(o, 0.9, **k),
    "CosineAnnealingLR": lambda s, o, **k: s.CosineAnnealingLR(o, 5, 1e-3, **k), "CosineAnnealingWarmRestarts": lambda s, o, **k: s.CosineAnnealingWarmRestarts(o, 3, 2, **k),
    "LinearLR": lambda s, o, **k: s.LinearLR(o, 0.1, 1.0, 4, **k), "ConstantLR": lambda s, o, **k: s.ConstantLR(o, 0.5, 3, **k), "PolynomialLR": lambda s, o, **k: s.PolynomialLR(o, 6, 2.0, **k),
    "LambdaLR": lambda s, o, **k: s.LambdaLR(o, lambda e: 1 / (e + 1), **k), "MultiplicativeLR": lambda s, o, **k: s.MultiplicativeLR(o, lambda e: 0.9, **k),
    "OneCycleLR": lambda s, o, **k: s.OneCycleLR(o, 1.0, total_steps=12, **k), "CyclicLR": lambda s, o, **k: s.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2", cycle_momentum=False, **k),
}  # fmt: skip


@pytest.mark.parametrize("done", [1, 3, 5])
@pytest.mark.parametrize("name", MADE)
def test_rates(name, done):
    if name == "CosineAnnealingWarmRestarts" and done == 5:
        pytest.skip("PyTorch begins a period anew where the schedule itself is in its middle")
    found = []
    for lib in (fl, torch):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1, momentum=0.9)
        schedule = MADE[name](lib.optim.lr_scheduler, optimizer)
        for _ in range(done):
            optimizer.step(), schedule.step()
        again = MADE[name](lib.optim.lr_scheduler, optimizer, last_epoch=schedule.last_epoch)
        rates = [again.last_epoch, *again.get_last_lr()]
        for _ in range(4):
            optimizer.step(), again.step()
            rates += again.get_last_lr()
        found.append(rates)
    assert found[0] == pytest.approx(found[1], rel=1e-9, abs=1e-12)
