"""Once warm, a training step asks the system for no memory: what it needs comes from the caching allocator."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys

import pytest

import flambeau as fl
from flambeau import nn

F = nn.functional

pytestmark = pytest.mark.skipif(
    os.environ.get("FLAMBEAU_ALLOCATOR", "") != "", reason="the guarded allocator keeps no memory"
)


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = fl.optim.Adam(net.parameters())
    x, y = fl.randn(16, 3, 48, 48), fl.randint(0, 10, (16,))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def recurrent():
    net, x = nn.LSTM(64, 128, 2), fl.randn(20, 16, 64)
    return lambda: net(x)[0].sum().backward()


def transformer():
    net, x = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), fl.randn(8, 64, 128)
    return lambda: net(x).sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("program", [convolutions, recurrent, transformer])
def test_no_page_faults_once_warm(program):
    step = program()
    for _ in range(8):
        step()
    faults = []
    for _ in range(4):  # the process has other business at times: collecting garbage, threads that start
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            step()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    # Megabytes are touched per step; fresh memory would cost hundreds of faults each.
    assert min(faults) < 50, faults


def test_gradients_of_leaves_are_not_copied():
    step = convolutions()
    step()
    with fl.profiler.profile() as recorded:
        step()
    names = [event.name for event in recorded.events()]
    assert "AccumulateGrad" in names
    assert "clone" not in names


ARRAYS = """
import resource
import flambeau as fl
import numpy as np

def batch():
    return fl.utils.data.default_collate([np.full((3, 128, 128), float(i), np.float32) for i in range(16)])

faults = []
for _ in range(12):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library's limits are not raised")
def test_arrays_of_a_batch_come_from_memory_that_is_there():
    """768 pages of arrays, which the C library would give back and take again for each batch."""
    quiet = {key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "GLIBC_"))}
    run = subprocess.run([sys.executable, "-c", ARRAYS], capture_output=True, text=True, check=True, timeout=60, env=quiet)
    assert int(run.stdout) < 50
