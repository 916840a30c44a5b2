"""Schedules that are made anew with `last_epoch` or load a state, as scripts resume, give PyTorch's rates; states have PyTorch's names."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

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


STATES = {
    **MADE,
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=12, three_phase=True, anneal_strategy="linear"),
    "CyclicLR, exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9), "CyclicLR, scale_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / x),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, "max", patience=1, cooldown=1), "SWALR": lambda s, o: s.SWALR(o, 0.02, 4),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 4), s.PolynomialLR(o, 5), s.CosineAnnealingWarmRestarts(o, 2)], [3, 5]),
    "SequentialLR, nothing of the first": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 2), s.ExponentialLR(o, 0.9)], [0]),
    "SequentialLR of one": lambda s, o: s.SequentialLR(o, [s.SequentialLR(o, [s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)], [2]), s.StepLR(o, 2)], [5]),
    "SequentialLR of a chain": lambda s, o: s.SequentialLR(o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)]), s.StepLR(o, 2)], [5]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.LinearLR(o, 0.1, 1.0, 4), s.ExponentialLR(o, 0.9)]),
}  # fmt: skip


def made(lib, name, lr):
    """An optimizer with a schedule, and what steps both and tells the rates."""
    optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=lib.tensor(lr[0]) if isinstance(lr, list) else lr, momentum=0.9)
    room = SimpleNamespace(**{**vars(lib.optim.lr_scheduler), "SWALR": importlib.import_module(f"{lib.__name__}.optim.swa_utils").SWALR})
    schedule = STATES[name](room, optimizer)

    def go(n):
        seen = []
        for _ in range(n):
            optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            seen += [schedule.get_last_lr(), optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]]
        return seen

    return optimizer, schedule, go


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lr", [0.1, 1, [0.1]], ids=["float", "int", "tensor"])
@pytest.mark.parametrize("name", STATES)
def test_states_and_rates_are_the_same(name, lr):
    found = []
    for lib in (fl, torch):
        optimizer, schedule, go = made(lib, name, lr)
        seen = [schedule.get_last_lr(), schedule.state_dict(), go(3), schedule.state_dict(), optimizer.state_dict()["param_groups"]]
        assert all(rate is not optimizer.param_groups[0]["lr"] for rate in schedule.get_last_lr()) or not isinstance(lr, list), "a copy"
        found.append(str(seen))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lr", [0.1, [0.1]], ids=["float", "tensor"])
@pytest.mark.parametrize("name", STATES)
def test_a_saved_state_of_pytorch_goes_on(name, lr, tmp_path):
    optimizer, schedule, go = made(torch, name, lr)
    go(3)
    torch.save({"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, tmp_path / "state.pt")
    found = []
    for lib in (fl, torch):
        state = lib.load(tmp_path / "state.pt", weights_only=True)
        optimizer, schedule, go = made(lib, name, lr)
        optimizer.load_state_dict(state["optimizer"]), schedule.load_state_dict(state["schedule"])
        found.append(str([go(5), schedule.state_dict()]))
    assert found[0] == found[1]


@pytest.mark.parametrize("factor", [1, 2])
def test_restarts_within_an_epoch(factor):
    found = []
    for lib in (fl, torch):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1)
        schedule = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, factor)
        seen = []
        for epoch in (None, 0.5, None, None, 3.25, None, 7.5, None, 0, None, None, None):
            optimizer.step(), schedule.step(epoch)
            seen += [schedule.get_last_lr(), schedule.T_cur, schedule.T_i, schedule.last_epoch]
        found.append(seen)
        with pytest.raises(ValueError):
            schedule.step(-1)
    assert found[0] == found[1]
