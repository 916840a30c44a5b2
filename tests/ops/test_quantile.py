"""Quantiles beside NumPy: every interpolation, axis and kind of q, NaN, and gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

KINDS = ["linear", "lower", "higher", "midpoint", "nearest"]
QS = [0.0, 0.3, 0.5, 1.0, [0.1, 0.5, 0.9], [0.7], []]


def data(*shape, nan=0):
    x = np.random.default_rng(0).standard_normal(shape)
    flat = x.reshape(-1)
    flat[np.random.default_rng(1).choice(flat.size, nan, replace=False)] = np.nan
    return x


def ours(x, q, *args, **kwargs):
    q = fl.tensor(q, dtype=fl.float64) if isinstance(q, list) else q
    return fl.tensor(x).quantile(q, *args, **kwargs)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("q", QS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_against_numpy(kind, q, dim, keepdim):
    x = data(5, 4, 7)
    expected = np.quantile(x, q, axis=dim, keepdims=keepdim, method=kind)
    got = ours(x, q, dim, keepdim, interpolation=kind)
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_nan(kind, dim):
    x = data(6, 5, nan=7)
    q = [0.2, 0.5, 1.0]
    np.testing.assert_array_equal(np.isnan(ours(x, q, dim, interpolation=kind).numpy()), np.isnan(np.quantile(x, q, axis=dim, method=kind)))
    got = fl.nanquantile(fl.tensor(x), fl.tensor(q, dtype=fl.float64), dim, interpolation=kind)
    np.testing.assert_allclose(got.numpy(), np.nanquantile(x, q, axis=dim, method=kind), rtol=1e-12)


def test_rows_of_nan_alone_stay_nan():
    x = fl.tensor([[float("nan")] * 3, [1.0, 2.0, float("nan")]])
    assert fl.nanquantile(x, 0.5, 1).isnan().tolist() == [True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [None, 1])
def test_gradients(dim, kind):
    x = fl.tensor(data(4, 6), requires_grad=True)
    q = fl.tensor([0.21, 0.6], dtype=fl.float64)
    assert fl.autograd.gradcheck(lambda t: t.quantile(q, dim, interpolation=kind), (x,))
    assert fl.autograd.gradcheck(lambda t: t.nanquantile(q, dim, interpolation=kind), (x,))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: fl.quantile(fl.ones(3), 1.5), ValueError, r"q must be in the range \[0, 1\]"),
        (lambda: fl.quantile(fl.ones(3), float("nan")), ValueError, r"q must be in the range \[0, 1\]"),
        (lambda: fl.quantile(fl.ones(0), 0.5), ValueError, r"shape \[0\]"),
        (lambda: fl.quantile(fl.ones(3), 0.5, interpolation="cubic"), ValueError, "interpolation"),
        (lambda: fl.quantile(fl.arange(3), 0.5), fl.DTypeError, "int64"),
        (lambda: fl.quantile(fl.ones(3), fl.ones(1, dtype=fl.float64)), fl.DTypeError, "float64"),
        (lambda: fl.quantile(fl.ones(3), fl.ones(1, 1)), fl.DTypeError, "vector"),
        (lambda: fl.quantile(fl.ones(3), 0.5, 1), IndexError, "dim = 1"),
        (lambda: fl.nanquantile(fl.ones(3, dtype=fl.float16), 0.5), fl.DTypeError, "float16"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_shapes_on_meta():
    assert fl.quantile(fl.empty(3, 4, device="meta"), 0.5, 1).shape == (3,)
