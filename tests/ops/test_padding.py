"""Borders around tensors against NumPy: every mode, element sizes, strides, and rows so long that threads share one."""

import numpy as np
import pytest

import flambeau as fl

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padded(x, pads, mode):
    """NumPy's result for pads (before, after) from the last axis backwards."""
    pairs = [(0, 0)] * (x.ndim - len(pads) // 2) + [tuple(pads[k : k + 2]) for k in range(len(pads) - 2, -1, -2)]
    return np.pad(x, pairs, mode=MODES[mode]) if mode in MODES else np.pad(x, pairs, constant_values=7)


@pytest.mark.parametrize("mode", [*MODES, "constant"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "c16"])
def test_modes_and_sizes(mode, dtype):
    rng = np.random.default_rng(0)
    for shape, pads in [((3, 4, 5, 9), (2, 3)), ((3, 4, 5, 9), (1, 0, 0, 4)), ((2, 3, 4, 5, 6), (0, 5, 3, 1, 2, 0)), ((2, 3, 130), (5, 1))]:
        a = (rng.standard_normal(shape) * 50).astype(dtype)
        value = (7,) if mode == "constant" else ()
        x = fl.from_numpy(a)
        want = padded(a, pads, mode)
        assert np.array_equal(fl.nn.functional.pad(x, pads, mode, *value).numpy(), want)
        turned = fl.from_numpy(np.ascontiguousarray(a.T)).permute(*range(a.ndim)[::-1])  # rows of large strides
        assert np.array_equal(fl.nn.functional.pad(turned, pads, mode, *value).numpy(), want)


@pytest.mark.parametrize("mode", [*MODES, "constant"])
def test_long_rows(mode):
    a = np.arange(2 * 3 * 70_000, dtype="f4").reshape(2, 3, 70_000)
    value = (7,) if mode == "constant" else ()
    for pads in [(3, 4), (0, 1), (1, 2, 2, 1)] if mode == "constant" else [(3, 4), (0, 1)]:
        assert np.array_equal(fl.nn.functional.pad(fl.from_numpy(a), pads, mode, *value).numpy(), padded(a, pads, mode))
    high = a.reshape(1, 2, 3, 70_000)
    got = fl.nn.functional.pad(fl.from_numpy(high), (1, 2, 2, 1), mode, *value)
    assert np.array_equal(got.numpy(), padded(high, (1, 2, 2, 1), mode))


def test_a_number_around_one_axis_of_nothing_else():
    assert fl.nn.functional.pad(fl.arange(3), (2, 1), value=9).tolist() == [9, 9, 0, 1, 2, 9]
    assert fl.nn.functional.pad(fl.zeros(2, 0), (1, 1), value=9).tolist() == [[9, 9], [9, 9]]
    assert fl.nn.functional.pad(fl.arange(6).view(2, 3), (-1, 2, 1, -1), value=9).tolist() == [[9, 9, 9, 9], [1, 2, 9, 9]]
