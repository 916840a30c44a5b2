"""Eigenpairs by products with the matrix alone."""

from __future__ import annotations

import pytest

import flambeau as fl


def symmetric(n, seed, dtype=fl.float64, plus=0.0):
    fl.manual_seed(seed)
    A = fl.randn(n, n, dtype=dtype)
    return A @ A.T / n + plus * fl.eye(n, dtype=dtype)


@pytest.mark.parametrize("largest", [True, False, None])
@pytest.mark.parametrize("form", ["dense", "coo", "csr", "B", "iK", "X", "n"])
def test_pairs(form, largest):
    A = symmetric(60, 1)
    B = symmetric(60, 2, plus=1.0) if form == "B" else None
    if form == "iK" and largest is not False:
        pytest.skip("an inverse leads to the smallest")
    given = A.to_sparse() if form == "coo" else A.to_sparse_csr() if form == "csr" else A
    more = {"iK": fl.linalg.inv(A + 1e-3 * fl.eye(60, dtype=A.dtype))} if form == "iK" else {"X": fl.randn(60, 4, dtype=A.dtype)} if form == "X" else {"n": 6} if form == "n" else {}
    E, X = fl.lobpcg(given, 3, B, largest=largest, tol=1e-9, **more)
    half = fl.linalg.inv(fl.linalg.cholesky(fl.eye(60, dtype=A.dtype) if B is None else B))
    every = fl.linalg.eigvalsh(half @ A @ half.T)
    expected = every[:3] if largest is False else every.flip(0)[:3]
    fl.testing.assert_close(E, expected, rtol=1e-8, atol=1e-10)
    times = X if B is None else B @ X
    assert X.shape == (60, 3)
    fl.testing.assert_close(A @ X, times * E, rtol=0, atol=1e-6)
    fl.testing.assert_close(X.T @ times, fl.eye(3, dtype=A.dtype), rtol=0, atol=1e-10)


def test_batches():
    A = fl.stack([symmetric(20, i) for i in range(6)]).reshape(2, 3, 20, 20)
    E, X = fl.lobpcg(A, 2, tol=1e-9)
    assert E.shape == (2, 3, 2) and X.shape == (2, 3, 20, 2)
    fl.testing.assert_close(E, fl.linalg.eigvalsh(A).flip(-1)[..., :2], rtol=1e-8, atol=1e-10)


def test_single_precision_and_pairs_that_are_there_twice():
    A = fl.diag(fl.tensor([5.0, 5.0, 5.0] + [1.0] * 20))
    E, X = fl.lobpcg(A, 3)
    fl.testing.assert_close(E, fl.tensor([5.0] * 3))
    fl.testing.assert_close(X.T @ X, fl.eye(3), rtol=0, atol=1e-5)


def test_iterations_end():
    A = fl.diag(fl.arange(1.0, 31.0))
    fl.manual_seed(0)
    E, X = fl.lobpcg(A, 2, niter=1)
    fl.manual_seed(0)
    again, _ = fl.lobpcg(A, 2, niter=-1)
    assert (E < again).all()
    further, _ = fl.lobpcg(A, X=X)
    fl.testing.assert_close(further, again, rtol=1e-4, atol=0)


@pytest.mark.parametrize("with_b", [False, True])
@pytest.mark.parametrize("largest", [True, False])
def test_gradients(with_b, largest):
    A, B = symmetric(9, 3), symmetric(9, 4, plus=1.0)

    def f(a, b):
        E, X = fl.lobpcg((a + a.mT) / 2, 2, (b + b.mT) / 2 if with_b else None, largest=largest, tol=1e-13)
        return E, X.abs()

    assert fl.autograd.gradcheck(f, (A.requires_grad_(), B.requires_grad_(with_b)))


WRONG = [
    (lambda: fl.lobpcg(fl.ones(3, 4)), AssertionError, r"A has shape \[3, 4\]; expected square"),
    (lambda: fl.lobpcg(fl.ones(4, 4, dtype=fl.int64)), TypeError, "A is flambeau.int64"),
    (lambda: fl.lobpcg(fl.eye(9), 4), ValueError, "9 rows for 4 columns; expected at least 12"),
    (lambda: fl.lobpcg(fl.eye(9), 0), ValueError, "k = 0"), (lambda: fl.lobpcg(fl.eye(9), 3, n=2), ValueError, "expected 1 <= k <= 2"),
    (lambda: fl.lobpcg(fl.eye(9), B=fl.eye(8)), AssertionError, r"B has shape \[8, 8\]"), (lambda: fl.lobpcg(fl.eye(9), X=fl.ones(8, 2)), AssertionError, r"X has shape \[8, 2\]"),
    (lambda: fl.lobpcg(fl.eye(9), X=fl.ones(9, 2)), ValueError, "depend on each other"), (lambda: fl.lobpcg(fl.eye(9), method="lanczos"), ValueError, "method = 'lanczos'"),
    (lambda: fl.lobpcg(fl.eye(9), tracker=print), ValueError, "tracker is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_what_is_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
