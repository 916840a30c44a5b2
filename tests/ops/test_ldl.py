"""L D L^T of symmetric and Hermitian matrices: what is factored, what is solved, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau.linalg import LinAlgError, ldl_factor, ldl_factor_ex, ldl_solve

SIZES = [0, 1, 2, 3, 7, 40]


def matrices(n, batch=(), dtype="float64", hermitian=False, seed=0):
    rng = np.random.default_rng([seed, n, *batch])
    a = rng.standard_normal((*batch, n, n))
    if "complex" in dtype:
        a = a + 1j * rng.standard_normal(a.shape)
    b = np.swapaxes(a, -1, -2)
    a = a + (b.conj() if hermitian else b)
    if n > 2:
        a[..., 0, 0] = 0  # so that a block of two is needed
    return a.astype(dtype)


def unpacked(LD, pivots, hermitian):
    """P L D L^T P^T of one matrix, as LAPACK stores it."""
    n, k = len(LD), 0
    D, made = np.zeros_like(LD), np.eye(n, dtype=LD.dtype)
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        i, p, rest = k + width - 1, abs(int(pivots[k])) - 1, k + width
        D[k:rest, k:rest] = np.tril(LD[k:rest, k:rest])
        if width == 2:
            D[k, k + 1] = LD[k + 1, k].conj() if hermitian else LD[k + 1, k]
        exchange = np.eye(n, dtype=LD.dtype)
        exchange[[i, p]] = exchange[[p, i]]
        step = np.eye(n, dtype=LD.dtype)
        step[rest:, k:rest] = LD[rest:, k:rest]
        made = made @ exchange @ step
        k = rest
    return made @ D @ (made.conj() if hermitian else made).T


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("hermitian", [False, True])
def test_factors_and_solutions(n, dtype, hermitian):
    a = matrices(n, (2,), dtype, hermitian)
    tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-9
    LD, pivots, info = ldl_factor_ex(fl.tensor(a), hermitian=hermitian)
    assert LD.dtype.name == dtype and pivots.dtype == info.dtype == fl.int32 and not info.any()
    for k in range(2):
        np.testing.assert_allclose(unpacked(LD[k].numpy(), pivots[k].numpy(), hermitian), a[k], atol=tolerance * 10)
    b = np.random.default_rng(5).standard_normal((2, n, 3)).astype(dtype)
    x = ldl_solve(LD, pivots, fl.tensor(b), hermitian=hermitian)
    np.testing.assert_allclose(a @ x.numpy(), b, atol=tolerance * 10)


def test_only_the_lower_triangle_is_read():
    a = matrices(6)
    other = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
    assert fl.equal(ldl_factor(fl.tensor(a)).LD.tril(), ldl_factor(fl.tensor(other)).LD.tril())


def test_batches_broadcast():
    LD, pivots = ldl_factor(fl.tensor(matrices(4)))
    B = fl.randn(3, 4, 2, dtype=fl.float64)
    x = ldl_solve(LD, pivots, B)
    assert x.shape == (3, 4, 2) and fl.allclose(x[1], ldl_solve(LD, pivots, B[1]))
    assert ldl_solve(LD.expand(0, 4, 4), pivots.expand(0, 4), fl.ones(0, 4, 1, dtype=fl.float64)).shape == (0, 4, 1)


def test_singular_matrices():
    a = fl.tensor([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert ldl_factor_ex(a).info.tolist() == [2, 0, 1]
    with pytest.raises(LinAlgError, match=r"linalg.ldl_factor: block 2 of D of matrix 0 is 0; the matrix is singular"):
        ldl_factor(a)
    with pytest.raises(LinAlgError, match=r"linalg.ldl_factor_ex: block 1 of D is 0"):
        ldl_factor_ex(a[2], check_errors=True)
    assert ldl_factor_ex(fl.full((2, 2), float("nan"))).info.item() == 1


def test_meta_and_out():
    LD, pivots, info = ldl_factor_ex(fl.empty(2, 3, 3, device="meta"))
    assert LD.is_meta and LD.shape == (2, 3, 3) and pivots.shape == (2, 3) and info.shape == (2,)
    assert ldl_solve(LD, pivots, fl.empty(2, 3, 1, device="meta")).shape == (2, 3, 1)
    a, out = fl.tensor(matrices(3)), (fl.empty(0, dtype=fl.float64), fl.empty(0, dtype=fl.int32))
    assert ldl_factor(a, out=out)[0] is out[0] and fl.equal(out[0], ldl_factor(a).LD)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda LD, p, B: ldl_factor(fl.ones(2, 3)), fl.ShapeError, "A must be batches of square matrices"),
        (lambda LD, p, B: ldl_factor(fl.ones(2, 2, dtype=fl.int64)), fl.DTypeError, "A is flambeau.int64"),
        (lambda LD, p, B: ldl_solve(LD, p, B.float()), fl.DTypeError, "B flambeau.float32; expected LD and B of one type"),
        (lambda LD, p, B: ldl_solve(LD, p.long(), B), fl.DTypeError, "pivots flambeau.int64"),
        (lambda LD, p, B: ldl_solve(LD, p[:2], B), fl.ShapeError, r"pivots \[2\]"),
        (lambda LD, p, B: ldl_solve(LD, p, B[:2]), fl.ShapeError, r"B \[2, 1\]; expected \[..., n, n\]"),
        (lambda LD, p, B: ldl_solve(LD, p * 9, B), ValueError, r"expected rows from 1 to 3 as ldl_factor gives them"),
        (lambda LD, p, B: ldl_solve(LD, fl.tensor([1, 2, -3], dtype=fl.int32), B), ValueError, "expected rows from 1 to 3"),
        (lambda LD, p, B: ldl_solve(LD, fl.zeros(3, dtype=fl.int32), B), ValueError, "expected rows from 1 to 3"),
    ],
)
def test_refusals(call, error, message):
    LD, pivots = ldl_factor(fl.eye(3, dtype=fl.float64))
    with pytest.raises(error, match=message):
        call(LD, pivots, fl.ones(3, 1, dtype=fl.float64))


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda A, LD, p, B: ldl_factor(A).LD, "ldl_factor"),
        (lambda A, LD, p, B: ldl_factor_ex(A).LD, "ldl_factor_ex"),
        (lambda A, LD, p, B: ldl_solve(LD, p, B), "ldl_solve"),
        (lambda A, LD, p, B: fl.func.vmap(lambda b: ldl_solve(LD.detach(), p, b))(B[None]), "ldl_solve"),
    ],
)
def test_backward_says_that_there_is_no_derivative(call, op):
    A, B = fl.eye(2).requires_grad_(), fl.ones(2, 1, requires_grad=True)
    LD, pivots = ldl_factor(A)
    y = call(A, LD, pivots, B)
    with pytest.raises(fl.AutogradError, match=f"linalg.{op} has no derivative; call it on detach"):
        y.sum().backward()
    assert not pivots.requires_grad
    with fl.no_grad():
        assert not call(A, LD, pivots, B).requires_grad
