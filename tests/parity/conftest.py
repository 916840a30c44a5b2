"""Comparison with PyTorch. The folder is skipped where torch can not be imported."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(2)
    # For each seed PyTorch keeps the stack of its caller for each kind of device that it may meet yet (2 ms of the tests' stacks).
    for device in (torch.cuda, torch.xpu, torch.mtia):
        if not device.is_available():
            device.manual_seed_all = lambda seed: None


@pytest.fixture(autouse=True)
def checks_of_distributions():
    """`torch.compile` switches the checks of arguments off for its whole process; texts that come later are of these checks."""
    yield
    if torch is not None:
        torch.distributions.Distribution.set_default_validate_args(True)


def pytest_collection_modifyitems(items):
    if torch is None:
        for item in items:
            if "parity" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="torch is not installed; `make parity` installs it"))
