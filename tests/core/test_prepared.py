"""Weights that a kernel packed are used again, and never after the weight has changed."""

from __future__ import annotations

import copy
import ctypes

import numpy as np
import pytest

import flambeau as fl
from flambeau import _C, nn

pytestmark = pytest.mark.skipif(_C.onednn_version() is None, reason="only oneDNN packs weights")


def conv():
    return nn.Conv2d(32, 32, 3, padding=1), fl.randn(2, 32, 14, 14)


def transposed():
    return nn.ConvTranspose2d(32, 32, 4, 2, 1), fl.randn(2, 32, 7, 7)


def linear():
    return nn.Linear(256, 512), fl.randn(32, 256)


def lstm():
    return nn.LSTM(64, 64), fl.randn(3, 16, 64)


MODULES = [conv, transposed, linear, lstm]
# Row-major convolutions are mostly our own kernels', which pack nothing.
PACKED = MODULES if _C.get_deferred_layout() else [linear, lstm]


def output(module, x):
    y = module(x)
    return y[0] if isinstance(y, tuple) else y


def reference(module, x):
    """By a copy in float64, which nothing is packed for."""
    return output(copy.deepcopy(module).double(), x.double()).numpy()


def check(module, x):
    exact = reference(module, x)
    np.testing.assert_allclose(output(module, x).numpy(), exact, rtol=1e-4, atol=1e-5 * max(10.0, float(np.abs(exact).max())))


@pytest.fixture(autouse=True)
def prediction():
    with fl.no_grad():
        yield


@pytest.mark.parametrize("make", PACKED)
def test_kept_from_call_to_call(make):
    module, x = make()
    for _ in range(6):
        check(module, x)
    before = _C.prepared_stats()
    check(module, x)
    after = _C.prepared_stats()
    assert after["made"] == before["made"]
    assert after["reused"] > before["reused"]
    assert after["bytes"] > 0


@pytest.mark.parametrize("make", PACKED)
@pytest.mark.eager("memory")
def test_gone_with_the_module(make):
    module, x = make()
    before = _C.prepared_stats()["bytes"]
    for _ in range(6):
        output(module, x)
    assert _C.prepared_stats()["bytes"] > before
    del module
    assert _C.prepared_stats()["bytes"] == before


def test_empty_cache_drops_them():
    module, x = linear()
    for _ in range(6):
        output(module, x)
    fl.empty_cache()
    assert _C.prepared_stats()["bytes"] == 0
    check(module, x)


def in_place(weight):
    weight.mul_(-2)


def through_a_view(weight):
    weight[:5].zero_()


def through_detach(weight):
    weight.detach().add_(1)


def through_data(weight):
    weight.data.fill_(0.5)


def other_data(weight):
    weight.data = fl.randn(*weight.shape)


def copied_into(weight):
    weight.copy_(fl.randn(*weight.shape))


def by_numpy(weight):
    weight.detach().numpy()[:] = 0.25


def by_address(weight):
    flat = (ctypes.c_float * weight.numel()).from_address(weight.data_ptr())
    for i in range(weight.numel()):
        flat[i] = 0.1


def by_optimizer(weight):
    weight.grad = fl.ones_like(weight)
    fl.optim.SGD([weight], lr=0.5).step()


def by_init(weight):
    nn.init.uniform_(weight)


def in_inference_mode(weight):
    with fl.inference_mode():
        weight.mul_(3)


WRITES = [
    in_place, through_a_view, through_detach, through_data, other_data, copied_into, by_numpy, by_address, by_optimizer,
    by_init, in_inference_mode,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("make", MODULES)
def test_never_stale(make, write):
    module, x = make()
    weight = next(iter(module.parameters()))
    for _ in range(3):
        for _ in range(6):
            output(module, x)
        write(weight)
        check(module, x)


def test_an_array_that_stays():
    module, x = linear()
    for _ in range(6):
        output(module, x)
    array = module.weight.detach().numpy()
    for value in (0.5, -1.0, 2.0):
        for _ in range(6):
            output(module, x)
        array[:] = value
        check(module, x)


@pytest.mark.slow
def test_memory_of_numpy():
    array = np.ones((512, 256), np.float32)
    weight, x = fl.from_numpy(array), fl.randn(32, 256)
    for value in (1.0, -1.0, 2.0):
        array[:] = value
        for _ in range(6):
            y = nn.functional.linear(x, weight)
        np.testing.assert_allclose(y.numpy(), x.numpy() @ array.T, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_training_keeps_nothing():
    module, x = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 64)), fl.randn(16, 3, 8, 8)
    optimizer = fl.optim.SGD(module.parameters(), lr=0.01)
    before = _C.prepared_stats()["made"]
    with fl.enable_grad():
        for _ in range(6):
            optimizer.zero_grad()
            module(x).sum().backward()
            optimizer.step()
    assert _C.prepared_stats()["made"] == before


@pytest.mark.parametrize("make", MODULES)
def test_casts_of_weights_outlive_their_region(make):
    module, x = make()
    with fl.autocast("cpu", dtype=fl.bfloat16):
        first = output(module, x)
    for _ in range(3):
        with fl.autocast("cpu", dtype=fl.bfloat16):
            assert fl.equal(output(module, x), first)
    before = _C.prepared_stats()
    with fl.autocast("cpu", dtype=fl.bfloat16):
        output(module, x)
    assert _C.prepared_stats()["made"] == before["made"]
    assert _C.prepared_stats()["reused"] > before["reused"]


@pytest.mark.parametrize("write", WRITES)
def test_casts_of_weights_are_never_stale(write):
    module, x = linear()
    for _ in range(3):
        for _ in range(6):
            with fl.autocast("cpu", dtype=fl.bfloat16):
                output(module, x)
        write(module.weight)
        with fl.autocast("cpu", dtype=fl.bfloat16):
            y = output(module, x)
        exact = reference(module, x)
        np.testing.assert_allclose(y.float().numpy(), exact, rtol=0.02, atol=0.02 * np.abs(exact).max())


def test_casts_record_a_graph_where_one_is_wanted():
    module, x = linear()
    for _ in range(6):
        with fl.autocast("cpu", dtype=fl.bfloat16):
            output(module, x)
    with fl.enable_grad():
        with fl.autocast("cpu", dtype=fl.bfloat16):
            y = output(module, x)
        y.float().sum().backward()
    np.testing.assert_allclose(module.bias.grad.numpy(), np.full(512, 32.0), rtol=0.01)
    assert module.weight.grad is not None
