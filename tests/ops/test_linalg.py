"""flambeau.linalg beside NumPy and SciPy: values over shapes, batches and types, gradients, errors, `out=`."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from support.compare import assert_near

import flambeau as fl
from flambeau import linalg

DTYPES = [np.float32, np.float64]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (2, 3), (4, 4), (7, 3), (3, 8), (65, 65), (90, 40), (130, 130)]
BATCHES = [(), (3,), (2, 0), (2, 1, 2)]
CASES = [(s, b) for s in SHAPES for b in (BATCHES if max(s) < 20 else [()])]  # large ones are worked on one after another
SQUARES = [(n, b) for n in (0, 1, 2, 3, 4, 5, 8, 9) for b in BATCHES] + [(64, ()), (65, (2,)), (129, ())]


def draw(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def positive(*shape, dtype=np.float64, seed=0):
    a = draw(*shape, dtype=np.float64, seed=seed)
    return (a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def near(got, want, scale=1.0):
    """Within rounding of the size of what is compared."""
    want = np.asarray(want, np.float64)
    size = max(1.0, float(np.abs(want).max())) if want.size else 1.0
    eps = 3e-6 if got.dtype is fl.float32 else 2e-13
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=0, atol=eps * size * scale)


def transposed(x):
    return x.transpose(-2, -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape, batch", CASES, ids=str)
class TestFactors:
    def test_lu(self, shape, batch, dtype):
        a = draw(*batch, *shape, dtype=dtype)
        p, lower, u = linalg.lu(fl.tensor(a))
        near(p @ lower @ u, a, 10 + max(shape))
        assert (lower.abs() <= 1).all() and bool((fl.tril(u, -1) == 0).all())

    def test_qr(self, shape, batch, dtype):
        a, (m, n) = draw(*batch, *shape, dtype=dtype), shape
        for mode, k in (("reduced", min(m, n)), ("complete", m)):
            q, r = linalg.qr(fl.tensor(a), mode)
            near(q @ r, a, 10 + max(shape))
            near(transposed(q) @ q, np.broadcast_to(np.eye(k), (*batch, k, k)), 10)
        empty, alone = linalg.qr(fl.tensor(a), "r")
        assert empty.numel() == 0
        near(alone, np.linalg.qr(a.astype(np.float64), "r") if a.size else alone.numpy(), 100)  # LAPACK's signs

    def test_svd(self, shape, batch, dtype):
        a, (m, n) = draw(*batch, *shape, dtype=dtype), shape
        k = min(m, n)
        for full in (True, False):
            u, s, vh = linalg.svd(fl.tensor(a), full)
            assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k)
            near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, 20)
            near(transposed(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*batch, u.shape[-1], u.shape[-1])), 10)
            near(vh @ transposed(vh), np.broadcast_to(np.eye(vh.shape[-2]), (*batch, vh.shape[-2], vh.shape[-2])), 10)
        near(s, np.linalg.svd(a.astype(np.float64), compute_uv=False) if a.size else s.numpy(), 10)
        near(linalg.svdvals(fl.tensor(a)), s.numpy(), 3)

    def test_lstsq_and_pinv(self, shape, batch, dtype):
        a, b = draw(*batch, *shape, dtype=dtype), draw(*batch, shape[0], 2, dtype=dtype, seed=1)
        if shape[0] == shape[1]:
            a = positive(*batch, *shape, dtype=dtype)  # well conditioned
        wide = np.linalg.pinv(a.astype(np.float64)) if a.size else np.zeros((*batch, shape[1], shape[0]))
        near(linalg.pinv(fl.tensor(a)), wide, 100)
        near(linalg.lstsq(fl.tensor(a), fl.tensor(b)).solution, wide @ b, 300)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n, batch", SQUARES, ids=str)
class TestSquare:
    def test_cholesky(self, n, batch, dtype):
        a = positive(*batch, n, n, dtype=dtype)
        want = np.linalg.cholesky(a.astype(np.float64))
        near(linalg.cholesky(fl.tensor(a)), want, 10)
        near(linalg.cholesky(fl.tensor(a), upper=True), np.swapaxes(want, -1, -2), 10)
        near(linalg.cholesky(fl.tensor(a.swapaxes(-1, -2).copy()).transpose(-2, -1)), want, 10)  # strided

    def test_solve_and_inverse(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype), draw(*batch, n, 3, dtype=dtype, seed=1)
        exact = np.linalg.inv(a.astype(np.float64))
        near(linalg.inv(fl.tensor(a)), exact, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b)), exact @ b, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b).mT, left=False), np.swapaxes(b, -1, -2) @ exact, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b[..., 0])), (exact @ b)[..., 0], 10)

    def test_lu_solve(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype) + draw(n, n, dtype=dtype), draw(*batch, n, 3, dtype=dtype, seed=1)
        exact = np.linalg.inv(a.astype(np.float64))
        factors = linalg.lu_factor(fl.tensor(a))
        near(linalg.lu_solve(*factors, fl.tensor(b)), exact @ b, 30)
        near(linalg.lu_solve(*factors, fl.tensor(b), adjoint=True), np.swapaxes(exact, -1, -2) @ b, 30)
        near(linalg.lu_solve(*factors, fl.tensor(b).mT, left=False), np.swapaxes(b, -1, -2) @ exact, 30)

    def test_triangles(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype), draw(*batch, n, 2, dtype=dtype, seed=1)
        for upper in (True, False):
            for unit in (True, False):
                t = np.triu(a, 1 if unit else 0) if upper else np.tril(a, -1 if unit else 0)
                t = t / max(n, 1) + (np.eye(n) if unit else 0)
                exact = np.linalg.inv(t.astype(np.float64))
                given = fl.tensor(t.astype(dtype))
                near(linalg.solve_triangular(given, fl.tensor(b), upper=upper, unitriangular=unit), exact @ b, 100)
                got = linalg.solve_triangular(given, fl.tensor(b).mT, upper=upper, left=False, unitriangular=unit)
                near(got, np.swapaxes(b, -1, -2) @ exact, 100)

    def test_determinants(self, n, batch, dtype):
        a = draw(*batch, n, n, dtype=dtype) / max(1, n) ** 0.5
        near(linalg.det(fl.tensor(a)), np.linalg.det(a.astype(np.float64)), 30)
        sign, log = linalg.slogdet(fl.tensor(a))
        want = np.linalg.slogdet(a.astype(np.float64))
        near(sign, want[0])
        near(log, want[1], 100)

    def test_eigenvalues(self, n, batch, dtype):
        a = draw(*batch, n, n, dtype=dtype)
        for name, low in (("L", np.tril(a)), ("U", np.swapaxes(np.triu(a), -1, -2))):
            whole = low + np.swapaxes(np.tril(low, -1), -1, -2)
            w, v = linalg.eigh(fl.tensor(a), name)
            near((v * w.unsqueeze(-2)) @ transposed(v), whole, 10)
            near(transposed(v) @ v, np.broadcast_to(np.eye(n), (*batch, n, n)), 10)
            near(w, np.linalg.eigvalsh(whole.astype(np.float64)), 10)
            near(linalg.eigvalsh(fl.tensor(a), name), w.numpy(), 3)

    def test_exponential(self, n, batch, dtype):
        a = draw(*batch, n, n, dtype=dtype) / max(1, n) ** 0.5
        for size in (1e-4, 1.0, 7.0):
            x = (a * size).astype(dtype)
            near(linalg.matrix_exp(fl.tensor(x)), scipy.linalg.expm(x.astype(np.float64)) if x.size else x, 100)


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("shape", [(6, 6), (9, 5), (5, 9)], ids=str)
def test_factors_of_singular_matrices(shape, rank):
    a = draw(shape[0], rank) @ draw(rank, shape[1], seed=1)
    u, s, vh = linalg.svd(fl.tensor(a))
    near((u[:, : s.shape[0]] * s) @ vh[: s.shape[0]], a, 10)
    near(u.T @ u, np.eye(shape[0]), 10)
    near(vh @ vh.T, np.eye(shape[1]), 10)
    assert linalg.matrix_rank(fl.tensor(a)).item() == rank
    near(linalg.pinv(fl.tensor(a)), np.linalg.pinv(a, rcond=1e-12), 100)
    q, r = linalg.qr(fl.tensor(a))
    near(q @ r, a, 10)
    p, lower, u = linalg.lu(fl.tensor(a))
    near(p @ lower @ u, a, 10)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_huge_and_tiny_matrices(size):
    a = draw(5, 5) * size
    w = linalg.eigvalsh(fl.tensor(a + a.T))
    np.testing.assert_allclose(w.numpy(), np.linalg.eigvalsh((a + a.T) / size) * size, rtol=1e-10)
    np.testing.assert_allclose(linalg.svdvals(fl.tensor(a)).numpy(), np.linalg.svd(a / size, compute_uv=False) * size, rtol=1e-10)
    q, r = linalg.qr(fl.tensor(a))
    np.testing.assert_allclose((q @ (r / size)).numpy(), a / size, atol=1e-12)


def symmetric(x):
    return x + x.mT


GRADIENTS = {
    "cholesky": (lambda a: linalg.cholesky(symmetric(a) + 8 * fl.eye(3, dtype=a.dtype)), (2, 3, 3)),
    "cholesky upper": (lambda a: linalg.cholesky(symmetric(a) + 8 * fl.eye(3, dtype=a.dtype), upper=True), (3, 3)),
    "cholesky_inverse": (lambda a: fl.cholesky_inverse(fl.tril(a) + 3 * fl.eye(3, dtype=a.dtype)), (3, 3)),
    "cholesky_solve": (lambda b, a: fl.cholesky_solve(b, fl.triu(a) + 3 * fl.eye(3, dtype=a.dtype), True), (3, 2), (3, 3)),
    "det": (linalg.det, (2, 3, 3)),
    "logdet": (lambda a: fl.logdet(a @ a.mT + fl.eye(3, dtype=a.dtype)), (3, 3)),
    "slogdet": (lambda a: linalg.slogdet(a)[1], (2, 3, 3)),
    "solve": (linalg.solve, (2, 3, 3), (3, 2)),
    "solve, right": (lambda a, b: linalg.solve(a, b, left=False), (3, 3), (2, 2, 3)),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), (2, 3, 3), (2, 3, 1)),
    "lu_solve, adjoint": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True), (3, 3), (3, 1)),
    "lu": (lambda a: linalg.lu(a)[1:], (4, 3)),
    "lu, wide": (lambda a: linalg.lu(a)[1:], (2, 2, 4)),
    "eigh": (lambda a: (linalg.eigh(symmetric(a))[0], linalg.eigh(symmetric(a))[1].abs()), (2, 3, 3)),
    "eigvalsh": (lambda a: linalg.eigvalsh(symmetric(a)), (3, 3)),
    "svd": (lambda a: (linalg.svd(a, False)[0].abs(), linalg.svd(a, False)[1], linalg.svd(a, False)[2].abs()), (3, 4)),
    "svdvals": (linalg.svdvals, (2, 4, 2)),
    "pinv": (linalg.pinv, (2, 4, 3)),
    "pinv, wide": (linalg.pinv, (2, 4)),
    "pinv of rank 1": (lambda a, b: linalg.pinv(a @ b), (4, 1), (1, 3)),
    "lstsq": (lambda a, b: linalg.lstsq(a, b).solution, (4, 2), (4, 1)),
    "matrix_exp": (linalg.matrix_exp, (2, 2, 2)),
    "matrix_power": (lambda a: linalg.matrix_power(a, 5), (2, 2)),
    "matrix_power, negative": (lambda a: linalg.matrix_power(a, -2), (2, 2)),
    "multi_dot": (lambda a, b, c: linalg.multi_dot([a, b, c]), (2, 5), (5, 1), (1, 3)),
    "matrix_norm, nuc": (lambda a: linalg.matrix_norm(a, "nuc"), (2, 3, 2)),
    "matrix_norm, -2": (lambda a: linalg.matrix_norm(a, -2), (3, 3)),
    "cond": (linalg.cond, (3, 3)),
    "cond, fro": (lambda a: linalg.cond(a, "fro"), (3, 3)),
    "householder_product": (lambda a, t: linalg.householder_product(a, t), (4, 3), (2,)),
    "ormqr": (lambda a, t, b: fl.ormqr(a, t, b), (4, 2), (2,), (4, 3)),
    "tensorsolve": (lambda a, b: linalg.tensorsolve(a, b), (2, 3, 6), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_numerically(name):
    function, *shapes = GRADIENTS[name]
    inputs = [fl.tensor(draw(*s, seed=k + 3)).requires_grad_() for k, s in enumerate(shapes)]
    fl.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("name", [n for n in GRADIENTS if n not in ("ormqr", "tensorsolve")])
def test_second_derivatives_numerically(name):
    function, *shapes = GRADIENTS[name]
    inputs = [fl.tensor(draw(*s, seed=k + 3)).requires_grad_() for k, s in enumerate(shapes)]

    def slopes(*xs):
        with fl.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
            ys = function(*xs)
            total = sum(((y * y).sum() for y in (ys if isinstance(ys, tuple) else (ys,))), fl.tensor(0.0, dtype=fl.float64))
            return fl.autograd.grad(total, xs, create_graph=True)

    fl.autograd.gradcheck(slopes, inputs, atol=1e-4, rtol=1e-3)


def test_gradient_of_det_of_singular_matrices():
    for diagonal in ([2.0, 3.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        a = fl.diag(fl.tensor(diagonal, dtype=fl.float64)).requires_grad_()
        linalg.det(a).backward()
        x, y, z = diagonal
        assert_near(a.grad, np.diag([y * z, x * z, x * y]))


def test_equal_eigenvalues_have_a_gradient_of_values_and_none_of_vectors():
    a = fl.eye(3, dtype=fl.float64).requires_grad_()
    linalg.eigvalsh(a).sum().backward()
    assert_near(a.grad, np.eye(3))
    linalg.svdvals(a).sum().backward()
    assert_near(a.grad, 2 * np.eye(3))
    (g,) = fl.autograd.grad((linalg.eigh(a)[1] * fl.tensor(draw(3, 3))).sum(), a)
    assert not g.isfinite().all()


ERRORS = [
    (lambda: linalg.cholesky(fl.zeros(2, 2)), linalg.LinAlgError, r"linalg.cholesky: The factorization .*leading minor of order 1 is not"),
    (lambda: linalg.cholesky(fl.stack([fl.eye(2), -fl.eye(2)])), linalg.LinAlgError, r"linalg.cholesky: \(Batch element 1\): "),
    (lambda: linalg.inv(fl.zeros(2, 2)), linalg.LinAlgError, "linalg.inv: The diagonal element 1 is zero, .* singular"),
    (lambda: linalg.solve(fl.zeros(3, 2, 2), fl.ones(2)), linalg.LinAlgError, r"linalg.solve: \(Batch element 0\): The solver failed"),
    (lambda: linalg.lu_factor(fl.zeros(2, 2)), linalg.LinAlgError, r"U\[1,1\] is zero"),
    (lambda: linalg.eigh(fl.full((2, 2), float("nan"))), linalg.LinAlgError, "linalg.eigh: The algorithm failed to converge"),
    (lambda: linalg.svd(fl.full((2, 3, 2), float("inf"))), linalg.LinAlgError, r"linalg.svd: \(Batch element 0\): The algorithm"),
    (lambda: linalg.inv(fl.zeros(2, 3)), fl.ShapeError, "linalg.inv: A must be batches of square matrices.*2 by 3"),
    (lambda: linalg.det(fl.zeros(2)), fl.ShapeError, r"linalg.det: The input tensor A must have at least 2 dimensions.*\[2\]"),
    (lambda: linalg.det(fl.zeros(2, 2, dtype=fl.int64)), fl.DTypeError, "linalg.det: A is int64; expected float32 or float64"),
    (lambda: linalg.qr(fl.zeros(2, 2, dtype=fl.float16)), fl.DTypeError, "float16; expected float32 or float64"),
    (lambda: linalg.solve(fl.eye(2), fl.eye(2, dtype=fl.float64)), fl.DTypeError, "A is float32, B is float64; expected one dtype"),
    (lambda: linalg.solve(fl.eye(2), fl.ones(3, 1)), fl.ShapeError, r"expected B.shape\[-2\] == A.shape\[-1\]"),
    (lambda: linalg.solve(fl.ones(2, 2, 2), fl.ones(3, 2, 2)), fl.ShapeError, "that broadcast"),
    (lambda: linalg.solve(fl.eye(2), fl.ones(2), left=False), fl.ShapeError, "expected matrices with left = False"),
    (lambda: linalg.qr(fl.eye(2), "full"), ValueError, "mode = 'full'; expected 'reduced', 'complete' or 'r'"),
    (lambda: linalg.eigh(fl.eye(2), "X"), ValueError, "UPLO = 'X'; expected 'L' or 'U'"),
    (lambda: linalg.lu_factor(fl.eye(2), pivot=False), ValueError, "pivot = False; expected True"),
    (lambda: linalg.lu_solve(fl.eye(2), fl.tensor([1, 9], dtype=fl.int32), fl.eye(2)), ValueError, "pivots have 9; expected rows from 1 to 2"),
    (lambda: linalg.lu_solve(fl.eye(2), fl.tensor([1, 2]), fl.eye(2)), fl.ShapeError, r"pivots are int64 \[2\]"),
    (lambda: linalg.matrix_norm(fl.eye(2), 3), ValueError, "Order 3 not supported"),
    (lambda: linalg.matrix_norm(fl.eye(2), dim=(0, 0)), ValueError, "expected two different axes"),
    (lambda: linalg.matrix_norm(fl.eye(2), dim=(0, 2)), IndexError, "an axis of dim = 2, but A has shape"),
    (lambda: linalg.norm(fl.ones(2, 2, 2), 2), fl.ShapeError, "If dim is not specified but ord is"),
    (lambda: linalg.cond(fl.eye(2), 3), ValueError, "p = 3; expected None"),
    (lambda: linalg.multi_dot([fl.eye(2)]), ValueError, "expected at least 2 tensors but got 1"),
    (lambda: linalg.multi_dot([fl.eye(2), fl.ones(3, 2)]), fl.ShapeError, r"tensors 0 and 1 with shapes \[2"),
    (lambda: linalg.matrix_power(fl.ones(2, 3), 2), fl.ShapeError, "expected square matrices"),
    (lambda: linalg.matrix_power(fl.eye(2), 1.5), TypeError, "n = 1.5; expected an int"),
    (lambda: linalg.svd(fl.eye(2), driver="gesvd"), ValueError, "expected None, as drivers are CUDA's"),
    (lambda: linalg.lstsq(fl.eye(2), fl.eye(2), driver="gels2"), ValueError, "expected None or one of gels"),
    (lambda: linalg.householder_product(fl.ones(2, 3), fl.ones(2)), fl.ShapeError, r"input has shape \[2, 3\], tau has shape \[2\]"),
    (lambda: linalg.tensorinv(fl.ones(2, 3), 1), fl.ShapeError, "expected prod"),
    (lambda: linalg.vander(fl.ones(2), N=1), ValueError, "N = 1; expected N > 1"),
]  # fmt: skip


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("call, kind, text", ERRORS, ids=range(len(ERRORS)))
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def tensor_arguments():
    """Each argument that has to be a tensor, of each function: the call with something else in its place."""
    modules = [(f"linalg.{n}", f) for n, f in vars(linalg).items()]
    modules += [(n, getattr(fl, n)) for n in ("cholesky_inverse", "cholesky_solve", "lu_unpack", "pinverse", "vander")]
    modules += [(f"fft.{n}", f) for n, f in vars(fl.fft).items()]
    kinds = {"Tensor": fl.eye(3), "bool": True}
    for name, f in modules:
        if not inspect.isfunction(f) or f.__name__.startswith("_"):
            continue
        needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        for wrong in (p.name for p in needed if p.annotation == "Tensor"):
            others = {p.name: kinds.get(p.annotation, 2) for p in needed if p.name != wrong}
            yield pytest.param(f, wrong, others, id=f"{name}-{wrong}")


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("f, wrong, others", tensor_arguments())
@pytest.mark.parametrize("value", [np.eye(3), 0.5, None, [1.0, 2.0]], ids=["array", "float", "none", "list"])
def test_what_is_no_tensor_is_refused_by_its_name(f, wrong, others, value):
    kind = type(value).__name__
    with pytest.raises(TypeError, match=rf"\w+ is a (numpy\.)?{kind}; expected a Tensor"):
        f(**{wrong: value}, **others)


@pytest.mark.eager("the moment at which an error is raised")
def test_ex_functions_say_what_failed_and_raise_on_demand():
    a = fl.stack([fl.eye(2), fl.zeros(2, 2), fl.diag(fl.tensor([1.0, -1.0]))])
    assert linalg.cholesky_ex(a).info.tolist() == [0, 1, 2]
    assert linalg.inv_ex(a).info.tolist() == [0, 1, 0]
    assert linalg.lu_factor_ex(a).info.tolist() == [0, 1, 0]
    assert linalg.solve_ex(a, fl.ones(3, 2)).info.tolist() == [0, 1, 0]
    for f in (linalg.cholesky_ex, linalg.inv_ex, linalg.lu_factor_ex):
        with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
            f(a, check_errors=True)


@pytest.mark.eager("the moment at which an error is raised")
def test_error_in_a_lazy_region_is_the_same():
    with pytest.raises(linalg.LinAlgError, match="linalg.inv: The diagonal element 1 is zero"), fl.lazy():
        (linalg.inv(fl.zeros(2, 2)) + 1).sum().item()


def test_backward_that_is_refused():
    a = fl.tensor(draw(4, 2)).requires_grad_()
    with pytest.raises(fl.AutogradError, match="mode = 'reduced'"):
        linalg.qr(a, "r")[1].sum().backward()
    with pytest.raises(fl.AutogradError, match="mode = 'complete' has no derivative"):
        linalg.qr(a, "complete")[1].sum().backward()


def test_norms():
    a = draw(2, 3, 4)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        want = np.linalg.norm(a, order, axis=(1, 2))
        near(linalg.matrix_norm(fl.tensor(a), order), want, 10)
        near(linalg.norm(fl.tensor(a), order, (1, 2), True), want[:, None, None], 10)
        near(linalg.matrix_norm(fl.tensor(a), order, (0, -1)), np.linalg.norm(a, order, axis=(0, 2)), 10)
    for order in (None, 0, 1, 2, 3.5, np.inf, -np.inf):
        near(linalg.norm(fl.tensor(a[0, 0]), order), np.linalg.norm(a[0, 0], order), 10)
        if order is not None:
            near(linalg.vector_norm(fl.tensor(a), order, 1), np.linalg.norm(a, order, axis=1), 10)
    near(linalg.norm(fl.tensor(a)), np.linalg.norm(a.reshape(-1)), 10)
    square = draw(2, 3, 3)
    for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        near(linalg.cond(fl.tensor(square), p), np.linalg.cond(square, p), 100)
    assert linalg.cond(fl.zeros(2, 2), 1).item() == np.inf
    assert linalg.matrix_norm(fl.zeros(0, 3), 1).item() == 0 and linalg.matrix_norm(fl.zeros(3, 0), 2).item() == 0


def test_products():
    a = draw(2, 3, 3)
    for n in (-2, -1, 0, 1, 2, 7):
        near(linalg.matrix_power(fl.tensor(a), n), np.linalg.matrix_power(a, n), 300)
    parts = [draw(*s, seed=7) for s in ((10, 30), (30, 5), (5, 60), (60, 2))]
    near(linalg.multi_dot([fl.tensor(p) for p in parts]), np.linalg.multi_dot(parts), 10)
    near(linalg.multi_dot([fl.tensor(parts[0][0]), fl.tensor(parts[1]), fl.tensor(parts[2][:, 0])]), parts[0][0] @ parts[1] @ parts[2][:, 0], 10)
    x = draw(4)
    near(linalg.vander(fl.tensor(x), N=6), np.vander(x, 6, True), 10)
    near(fl.vander(fl.tensor(x)), np.vander(x), 10)
    assert fl.vander(fl.tensor([1, 2, 3]), 2).tolist() == [[1, 1], [2, 1], [3, 1]]
    t = draw(2, 3, 6)
    near(linalg.tensorinv(fl.tensor(t.reshape(2, 3, 3, 2))), np.linalg.tensorinv(t.reshape(2, 3, 3, 2)), 300)
    near(linalg.tensorsolve(fl.tensor(t), fl.tensor(draw(2, 3))), np.linalg.tensorsolve(t, draw(2, 3)), 300)
    near(linalg.cross(fl.tensor(draw(2, 1, 3)), fl.tensor(draw(1, 4, 3))), np.cross(draw(2, 1, 3), draw(1, 4, 3)), 10)
    near(linalg.vecdot(fl.tensor(draw(2, 3)), fl.tensor(draw(3))), (draw(2, 3) * draw(3)).sum(-1), 10)


def test_old_names():
    a = positive(4, 4)
    near(fl.inverse(fl.tensor(a)), np.linalg.inv(a), 10)
    near(fl.tensor(a).cholesky(upper=True), np.linalg.cholesky(a).T, 10)
    near(fl.cholesky_inverse(fl.tensor(a).cholesky()), np.linalg.inv(a), 10)
    near(fl.cholesky_solve(fl.tensor(draw(4, 2)), fl.tensor(a).cholesky()), np.linalg.solve(a, draw(4, 2)), 10)
    near(fl.tensor(a).logdet(), np.log(np.linalg.det(a)), 10)
    assert np.isnan(fl.logdet(fl.tensor([[0.0, 1.0], [1.0, 0.0]])).item()) and fl.logdet(fl.zeros(2, 2)).item() == -np.inf
    u, s, v = fl.svd(fl.tensor(draw(3, 5)))
    near((u * s) @ v.T, draw(3, 5), 10)
    assert fl.svd(fl.tensor(draw(3, 5)), compute_uv=False).U.abs().sum().item() == 0
    near(fl.triangular_solve(fl.tensor(draw(4, 1)), fl.tensor(a), transpose=True)[0], np.linalg.solve(np.triu(a).T, draw(4, 1)), 10)
    lu, pivots = fl.lu(fl.tensor(a))
    p, lower, up = fl.lu_unpack(lu, pivots)
    near(p @ lower @ up, a, 10)
    near(fl.lu_solve(fl.tensor(draw(4, 1)), lu, pivots), np.linalg.solve(a, draw(4, 1)), 10)
    near(fl.chain_matmul(fl.tensor(a), fl.tensor(a), fl.tensor(draw(4, 1))), a @ a @ draw(4, 1), 10)
    near(alone := fl.chain_matmul(x := fl.tensor(a)), a, 10)
    assert alone.data_ptr() != x.data_ptr()
    near(fl.pinverse(fl.tensor(draw(4, 2))), np.linalg.pinv(draw(4, 2)), 10)
    reflectors, tau = fl.geqrf(fl.tensor(draw(5, 3)))
    q = fl.orgqr(reflectors, tau)
    near(q @ fl.triu(reflectors[:3]), draw(5, 3), 10)
    near(fl.ormqr(reflectors, tau, fl.tensor(draw(5, 2)), transpose=True)[:3], q.numpy().T @ draw(5, 2), 10)


@pytest.mark.eager("the moment at which an error is raised")
def test_out():
    a = positive(3, 3)
    out = fl.empty(3, 3, dtype=fl.float64)
    assert linalg.inv(fl.tensor(a), out=out) is out
    near(out, np.linalg.inv(a), 10)
    empty = fl.empty(0, dtype=fl.float64)
    linalg.det(fl.tensor(a), out=empty)
    assert empty.shape == ()
    q, r = fl.empty(0, dtype=fl.float64), fl.empty(0, dtype=fl.float64)
    result = linalg.qr(fl.tensor(a), out=(q, r))
    assert result.Q is q and type(result).__name__ == "linalg_qr"
    near(q @ r, a, 10)
    with pytest.warns(UserWarning, match=r"out has shape \[2\] and is resized to \[3, 3\]"):
        linalg.inv(fl.tensor(a), out=fl.empty(2, dtype=fl.float64))
    with pytest.raises(fl.DTypeError, match=r"result type flambeau\.float64 can't be cast to the desired output type flambeau\.int64"):
        linalg.det(fl.tensor(a), out=fl.empty((), dtype=fl.int64))
    with pytest.raises(TypeError, match="expected a tuple of 2 tensors"):
        linalg.qr(fl.tensor(a), out=q)
    with pytest.raises(fl.AutogradError, match="don't support automatic differentiation"):
        linalg.inv(fl.tensor(a).requires_grad_(), out=out)
    kept = out.tolist()
    with pytest.raises(linalg.LinAlgError):
        linalg.inv(fl.zeros(3, 3, dtype=fl.float64), out=out)
    assert out.tolist() == kept


def test_results_do_not_depend_on_the_number_of_threads():
    a, b = fl.tensor(positive(300, 5, 5)), fl.tensor(positive(90, 90))
    before = fl.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            fl.set_num_threads(threads)
            found.append([linalg.inv(a), linalg.cholesky(b), linalg.eigh(a)[1], linalg.svd(a)[0], linalg.matrix_exp(a * 0.1)])
        for x, y in zip(*found):
            assert fl.equal(x, y)
    finally:
        fl.set_num_threads(before)


LAPACK = """
import numpy as np, flambeau as fl
from flambeau import linalg
assert fl._C.has_lapack() is {there}
a = np.random.default_rng(0).standard_normal((140, 130))
for x in (a, a.T.copy(), a[:, :130].astype(np.float32)):
    x = fl.tensor(x)
    u, s, vh = linalg.svd(x)
    k = len(s)
    w, v = linalg.eigh(x.mT @ x)
    q, r = linalg.qr(x, "complete")
    size = 1e-12 if x.dtype is fl.float64 else 1e-3
    assert (u[:, :k] * s @ vh[:k] - x).abs().max() < size and (v * w @ v.mT - x.mT @ x).abs().max() < size * 100
    assert (q @ r - x).abs().max() < size and (linalg.qr(x)[0] @ linalg.qr(x)[1] - x).abs().max() < size
    assert (linalg.svdvals(x) - s).abs().max() < size and (linalg.qr(x, "r")[1] - linalg.qr(x)[1]).abs().max() < size
for f in (linalg.eigh, linalg.svd):
    try:
        f(fl.full((2, 130, 130), float("nan")))
    except linalg.LinAlgError as e:
        assert "(Batch element 0): The algorithm failed to converge" in str(e)
    else:
        raise AssertionError
"""


@pytest.mark.slow
@pytest.mark.parametrize("switch, there", [("on", True), ("off", False)])
def test_large_matrices_with_and_without_lapack(switch, there):
    """The same meaning, whoever does the work."""
    linalg.svd(fl.eye(2))
    if there and not fl._C.has_lapack():
        pytest.skip("NumPy has no OpenBLAS of its own here")
    env = {**os.environ, "FLAMBEAU_LAPACK": switch}
    done = subprocess.run([sys.executable, "-c", LAPACK.format(there=there)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


BLAS_THREADS = """
import ctypes, glob, pathlib, threading, numpy as np, flambeau as fl
fl.linalg.svd(fl.eye(2))
[library] = glob.glob(str(pathlib.Path(np.__file__).parent.with_name("numpy.libs") / "libscipy_openblas64_*.so"))
blas = ctypes.CDLL(library)
threads, choose = blas.scipy_openblas_get_num_threads64_, blas.scipy_openblas_set_num_threads64_
choose(3)
fl.set_num_threads(2)
def during(size, then=lambda: None):
    return fl._C.call_lapack(size, lambda: (threads(), then(), threads()))
assert during(64) == (1, None, 1) and threads() == 3
assert during(1024) == (2, None, 2) and threads() == 3
assert during(64, lambda: during(1024) and None) == (1, None, 2) and threads() == 3
try:
    fl._C.call_lapack(64, lambda: 1 // 0)
except ZeroDivisionError:
    assert threads() == 3
fl.set_num_threads(1)
assert during(1024) == (1, None, 1) and threads() == 3
def work():
    for n in (60, 600, 60):
        fl.linalg.svdvals(fl.randn(3, n, 50))
running = [threading.Thread(target=work) for _ in range(4)]
for t in running: t.start()
for t in running: t.join()
assert threads() == 3
"""


@pytest.mark.slow
def test_lapack_takes_as_many_threads_as_the_library():
    """One for a matrix that is not worth several, and its own number is put back, also by several callers."""
    linalg.svd(fl.eye(2))
    if not fl._C.has_lapack():
        pytest.skip("NumPy has no OpenBLAS of its own here")
    done = subprocess.run([sys.executable, "-c", BLAS_THREADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", [(47, 47), (48, 48), (49, 48), (48, 49), (64, 130), (130, 64), (95, 97), (300, 50), (2, 50, 60)], ids=str)
def test_reflections_by_blocks(shape, dtype):
    a = draw(*shape, dtype=dtype)
    k = min(shape[-2:])
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(fl.tensor(a), mode)
        near(q @ r, a, 30)
        near(transposed(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])), 30)
        assert bool((fl.tril(r, -1) == 0).all())
    near(linalg.qr(fl.tensor(a), "r")[1], np.linalg.qr(a.astype(np.float64), "r"), 300)  # LAPACK's signs
    packed, tau = fl.geqrf(fl.tensor(a))
    near(fl.triu(packed)[..., :k, :], r.numpy()[..., :k, :], 3)
    near(linalg.householder_product(packed[..., :k], tau), q.numpy()[..., :k], 30)


class TestLeastSquares:
    """The pseudoinverse by QR where columns are certainly independent, by singular values elsewhere."""

    @pytest.mark.parametrize("shape", [(6, 4), (4, 4), (70, 50), (3, 8, 5)], ids=str)
    def test_full_rank(self, shape):
        a, b = draw(*shape), draw(*shape[:-1], 3, seed=1)
        found = linalg.lstsq(fl.tensor(a), fl.tensor(b))
        near(found.solution, np.linalg.pinv(a) @ b, 100)
        assert (found.rank == shape[-1]).all() and found.rank.shape == shape[:-2] and found.singular_values.numel() == 0
        by_values = linalg.lstsq(fl.tensor(a), fl.tensor(b), driver="gelsd")
        near(by_values.solution, found.solution.numpy(), 100)
        assert by_values.singular_values.shape[-1] == shape[-1] and (by_values.rank == found.rank).all()

    @pytest.mark.parametrize("small", [0.0, 1e-18, 1e-14, 1e-9])
    def test_rank_is_that_of_singular_values(self, small):
        u, v = np.linalg.qr(draw(7, 4))[0], np.linalg.qr(draw(4, 4, seed=1))[0]
        a = (u * [1, 1, 1, small]) @ v
        b = draw(7, 2, seed=2)
        found = linalg.lstsq(fl.tensor(a), fl.tensor(b))
        rank = np.linalg.matrix_rank(a, tol=7 * 2.0**-52)
        assert found.rank.item() == rank == (4 if small > 1e-15 else 3)
        want = np.linalg.pinv(a, rcond=7 * 2.0**-52) @ b
        np.testing.assert_allclose(found.solution.numpy(), want, rtol=1e-5 if small > 1e-10 else 2e-1, atol=1e-9)
        assert linalg.lstsq(fl.tensor(a), fl.tensor(b), rcond=1e-3).rank.item() == 3

    def test_what_is_not_finite_is_refused(self):
        a = draw(5, 3)
        a[1, 1] = np.nan
        with pytest.raises(linalg.LinAlgError, match="not finite"):
            linalg.lstsq(fl.tensor(a), fl.ones(5, 1, dtype=fl.float64)).solution.tolist()  # read: a recording raises then


def test_the_kernel_of_cross_wants_an_axis_of_three():
    """It read beyond the ends of another one."""
    x = fl.ones(1, 2, 3)
    for dim in (0, 1, -3):
        with pytest.raises(fl.ShapeError, match="expected 3"):
            fl._C.ops.vector_product_real(x, x, dim)
    assert fl._C.ops.vector_product_real(x, x, -1).shape == x.shape


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (15, 17), (16, 16), (17, 17), (24, 9), (33, 64), (64, 33), (65, 65), (100, 71), (129, 200), (257, 257)])
def test_factors_by_strips_of_columns(shape, dtype):
    rng = np.random.default_rng(shape[0])
    a = rng.standard_normal((2, *shape)).astype(np.float32 if dtype is fl.float32 else np.float64)
    p, l, u = fl.linalg.lu(fl.from_numpy(a))  # noqa: E741
    limit = 2e-4 if dtype is fl.float32 else 1e-11
    assert np.abs((p @ l @ u).numpy() - a).max() <= limit
    assert l.abs().max() <= 1  # the largest of each column was taken
    if shape[0] != shape[1]:
        return
    b = rng.standard_normal((2, shape[0], 5)).astype(a.dtype)
    for upper in (False, True):
        t = np.triu(a) if upper else np.tril(a)
        t += shape[0] * np.eye(shape[0], dtype=a.dtype)
        for r in (1, 5):
            x = fl.linalg.solve_triangular(fl.from_numpy(t), fl.from_numpy(b[..., :r].copy()), upper=upper).numpy()
            assert np.abs(t @ x - b[..., :r]).max() <= limit


def test_columns_without_a_pivot_and_with_nan():
    a = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    a[:, 20] = a[:, 3]
    a[:, 5] = 0
    assert fl.linalg.lu_factor_ex(fl.from_numpy(a))[2] == 6
    a[3, 7] = np.nan
    assert np.isnan(fl.linalg.det(fl.from_numpy(a)).item())


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (5, 2), (17, 16), (33, 33), (47, 20), (5, 40), (64, 64), (100, 50), (800, 16), (2000, 7)])
def test_reflections_of_all_shapes(shape, dtype):
    rng = np.random.default_rng(shape[0])
    scales = (1.0, 1e30, 1e-36) if dtype is fl.float32 else (1.0, 1e300, 1e-300)
    for scale in scales:
        a = (rng.standard_normal(shape) * scale).astype(np.float32 if dtype is fl.float32 else np.float64)
        a[:, -1] = a[:, 0]
        for mode in ("reduced", "complete"):
            if mode == "complete" and shape[0] > 1000:
                continue
            q, r = (t.double().numpy() for t in fl.linalg.qr(fl.from_numpy(a), mode))
            limit = 3e-5 if dtype is fl.float32 else 1e-13
            assert np.abs(q.T @ q - np.eye(q.shape[1])).max() <= limit
            assert np.abs(q @ (r / scale) - a.astype(np.float64) / scale).max() <= limit * 10


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("m, n", [(800, 16), (16, 800), (128, 1), (1, 130), (500, 23), (300, 5)])
def test_singular_values_of_long_matrices(m, n, full):
    rng = np.random.default_rng(m)
    for dtype, tolerance in (("f4", 3e-6), ("f8", 1e-14)):
        a = rng.standard_normal((2, m, n)).astype(dtype)
        a[1] *= 1e-3
        u, s, vh = (v.numpy() for v in linalg.svd(fl.from_numpy(a), full_matrices=full))
        k, want = min(m, n), np.linalg.svd(a.astype("f8"), compute_uv=False)
        assert np.abs(s - want).max() < tolerance * want.max()
        assert np.abs((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - a).max() < tolerance * want.max()
        assert np.abs(u.swapaxes(-1, -2) @ u - np.eye(u.shape[-1])).max() < 3 * tolerance
    assert linalg.matrix_rank(fl.ones(m, n)) == 1 and linalg.matrix_rank(fl.zeros(m, n)) == 0
