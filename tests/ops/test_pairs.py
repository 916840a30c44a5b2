"""Sums and running sums of rows of pairs, which complex numbers are, and of elements that lie two apart: against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

RNG = np.random.default_rng(5)
TYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(shape, dtype):
    """Whole numbers, whose sums are exact in any order."""
    x = RNG.integers(-50, 50, shape).astype(np.float64)
    return (x + 1j * RNG.integers(-50, 50, shape) if "complex" in dtype else x).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 64, 65, 200])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 33, 255, 2049, 5000])
def test_sums_along_rows(dtype, rows, n):
    a = drawn((rows, n), dtype)
    x = fl.tensor(a)
    assert np.array_equal(x.sum(1).numpy(), a.sum(1))
    assert np.array_equal(x.sum(1, keepdim=True).numpy(), a.sum(1, keepdims=True))
    np.testing.assert_allclose(x.mean(1).numpy(), a.mean(1), rtol=1e-6)
    assert np.array_equal(x.t().contiguous().t().sum(1).numpy(), a.sum(1))
    assert np.array_equal(x[:, ::2].sum(1).numpy(), a[:, ::2].sum(1)) and np.array_equal(x[:, 1::2].sum().numpy(), a[:, 1::2].sum())
    assert np.array_equal(x[::2].sum(1).numpy(), a[::2].sum(1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bfloat16"])
@pytest.mark.parametrize("last", [1, 2, 3, 5, 16, 64])
def test_short_axes_under_what_is_summed(dtype, last):
    for rows, n in ((1, 40), (5, 1), (5, 15), (5, 16), (7, 17), (70, 256), (3, 2000)):
        a = RNG.integers(-3, 4, (rows, n, last))
        x = fl.tensor(a).to(getattr(fl, dtype))
        assert fl.equal(x.sum(1), fl.tensor(a.sum(1)).to(x.dtype)), (rows, n)
        assert np.array_equal(x.amax(1).double().numpy(), a.max(1)), (rows, n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 30])
def test_running_sums_along_rows(dtype, rows):
    for n in (1, 2, 63, 64, 65, 300):
        a = drawn((rows, n), dtype)
        x = fl.tensor(a, requires_grad=True)
        y = x.cumsum(1)
        assert np.array_equal(y.detach().numpy(), a.cumsum(1))
        g = drawn((rows, n), dtype)
        y.backward(fl.tensor(g))
        assert np.array_equal(x.grad.numpy(), g[:, ::-1].cumsum(1)[:, ::-1])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float32", "int64", "complex128"])
def test_every_second_element(dtype):
    """Read as they are, or converted, up to the last byte of what there is."""
    for n in (15, 16, 17, 31, 32, 33, 64, 1000, 3001):
        a = RNG.integers(0, 100, 2 * n - 1).astype(dtype)
        x = fl.tensor(a)[::2]
        assert np.array_equal(x.clone().numpy(), a[::2]) and np.array_equal((x == 1).numpy(), a[::2] == 1)
        assert np.array_equal(x.to(fl.complex128).numpy(), a[::2].astype(complex))
