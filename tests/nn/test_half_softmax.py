"""Softmax of rows of 16-bit floats: beside float64 of the same values."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape", [(3, 1), (5, 7), (4, 16), (2, 3, 31), (3, 33), (2, 100), (300, 65), (1, 70_001)])
def test_rows_of_every_length(shape, log, dtype):
    rng = np.random.default_rng(sum(shape))
    x = fl.tensor(3 * rng.standard_normal(shape)).to(dtype).requires_grad_()
    dy = fl.tensor(rng.standard_normal(shape)).to(dtype)
    op, eps = (F.log_softmax if log else F.softmax), fl.finfo(dtype).eps
    wide = x.detach().double().requires_grad_()
    y, exact = op(x, -1), op(wide, -1)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.detach().double().numpy(), exact.detach().numpy(), rtol=0.6 * eps, atol=6e-8)
    np.testing.assert_allclose(op(x, -1, dtype=fl.float32).detach().numpy(), exact.detach().numpy(), rtol=1e-5, atol=2e-6)
    got, want = fl.autograd.grad(y, x, dy)[0], fl.autograd.grad(op(wide, -1), wide, dy.double())[0].numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got.double().numpy(), want, rtol=0, atol=(12 if log else 4) * eps * max(np.abs(want).max(), 1e-3))


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 130), (2, 300, 3, 21), (9000, 70)])
def test_columns(shape, log, dtype):
    x = fl.tensor(np.random.default_rng(3).standard_normal(shape)).to(dtype)
    dim = 0 if len(shape) == 2 else 1
    op = F.log_softmax if log else F.softmax
    columns, rows = x.detach().requires_grad_(), x.movedim(dim, -1).contiguous().requires_grad_()
    y, want = op(columns, dim), op(rows, -1).movedim(-1, dim)
    fl.testing.assert_close(y, want, rtol=fl.finfo(dtype).eps, atol=1e-7)
    dy = fl.randn_like(y)
    fl.testing.assert_close(
        fl.autograd.grad(y, columns, dy)[0], fl.autograd.grad(want, rows, dy)[0].movedim(-1, dim), rtol=0, atol=(64 if log else 4) * fl.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_what_is_not_finite(dtype):
    inf, nan = float("inf"), float("nan")
    rows = [[0, -inf, 0, -inf, -inf], [-inf] * 5, [inf, 0, 0, 0, 0], [nan, 0, 0, 0, 0], [0, 0, 0, 0, nan], [60000, 60000, 0, 0, 0]]
    for tail in (0, 11, 12, 27):  # up to a whole vector, and past it
        x = fl.tensor([r + [-inf] * tail for r in rows])
        for op in (F.softmax, F.log_softmax):
            np.testing.assert_allclose(op(x.to(dtype), -1).float().numpy(), op(x, -1).to(dtype).float().numpy(), rtol=1e-2)
