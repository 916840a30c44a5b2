"""Products of few rows by large matrices of rows, which are gone through once, a piece at a time."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

RNG = np.random.default_rng(11)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(32, 700, 4096), (17, 1024, 2064), (96, 513, 2560), (24, 300, 8192), (40, 512, 2049), (13, 2048, 1536)])
def test_beside_numpy(m, k, n, dtype):
    a, b, bias = RNG.standard_normal((m, k)).astype(dtype), RNG.standard_normal((k, n)).astype(dtype), RNG.standard_normal(n).astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    at = {"rtol": 0, "atol": (2e-6 if dtype == np.float32 else 1e-13) * np.abs(exact).max()}
    np.testing.assert_allclose((fl.tensor(a) @ fl.tensor(b)).numpy(), exact, **at)
    np.testing.assert_allclose((fl.tensor(a.T.copy()).t() @ fl.tensor(b)).numpy(), exact, **at)
    np.testing.assert_allclose(fl.addmm(fl.tensor(bias), fl.tensor(a), fl.tensor(b), beta=0.5, alpha=2).numpy(), 0.5 * bias + 2 * exact, rtol=0, atol=3 * at["atol"])


@pytest.mark.slow
def test_rows_of_a_wider_matrix():
    a, wide = RNG.standard_normal((32, 600)), RNG.standard_normal((600, 4608))
    b = fl.tensor(wide)[:, 256:4352]
    np.testing.assert_allclose((fl.tensor(a) @ b).numpy(), a @ wide[:, 256:4352], rtol=0, atol=1e-11)


@pytest.mark.slow
def test_threads_change_no_bit():
    a, b = fl.randn(30, 1024, dtype=fl.float64), fl.randn(1024, 3072, dtype=fl.float64)
    before, found = fl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            found.append((a @ b).numpy())
    finally:
        fl.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
