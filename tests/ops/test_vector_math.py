"""Errors of vector functions in units of the last place, as csrc/base/vmath.h states them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import flambeau as fl
from flambeau._C import isa_name, ops


def ulps(got, want):
    """The largest error, in units of the last place of float32 results."""
    unit = np.spacing(np.maximum(np.abs(want), np.finfo(np.float32).tiny).astype(np.float32)).astype(np.float64)
    return (np.abs(got.astype(np.float64) - want) / unit).max()


@pytest.mark.parametrize(("low", "high", "limit", "limit_without_fma"), [(-4, 8, 5, 8), (-13.1, -4, 20, 80)])
def test_gelu_is_right_to_the_last_places_in_both_tails(low, high, limit, limit_without_fma):
    x = np.linspace(low, high, 200001).astype(np.float32)
    wide = x.astype(np.float64)
    assert ulps(fl.nn.functional.gelu(fl.tensor(x)).numpy(), wide * special.ndtr(wide)) < (
        limit_without_fma if isa_name() == "baseline" else limit
    )


def test_the_gradient_of_gelu():
    x = np.linspace(-14, 14, 200001).astype(np.float32)
    wide = x.astype(np.float64)
    want = special.ndtr(wide) + wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    got = ops.gelu_erf_backward(fl.ones(len(x)), fl.tensor(x)).numpy()
    assert np.abs(got - want).max() < 4e-7
    tail = (x > -12) & (x < -2)
    assert (np.abs(got - want)[tail] / np.abs(want)[tail]).max() < 2e-5


def test_gelu_at_the_ends():
    x = fl.tensor([fl.inf, fl.nan, -1e30, -20.0, 1e30, 20.0, 0.0, 1e-40])
    y = fl.nn.functional.gelu(x).numpy()
    assert y[0] == np.inf and np.isnan(y[1])
    assert y[2:7].tolist() == [0.0, 0.0, np.float32(1e30), 20.0, 0.0] and y[7] == np.float32(5e-41)
