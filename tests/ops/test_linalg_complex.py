"""flambeau.linalg of complex matrices, and `eig`, beside NumPy and SciPy: values over shapes, batches and types, gradients, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import flambeau as fl
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck

DTYPES = [np.complex64, np.complex128]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (2, 3), (4, 4), (7, 3), (3, 8), (40, 40), (50, 37), (33, 60)]
BATCHES = [(), (3,), (2, 0), (2, 1, 2)]
CASES = [(s, b) for s in SHAPES for b in (BATCHES if max(s) < 20 else [()])]
SQUARES = [(n, b) for n in (0, 1, 2, 4, 9) for b in BATCHES] + [(40, ()), (33, (2,))]


def draw(*shape, dtype=np.complex128, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def positive(*shape, dtype=np.complex128, seed=0):
    a = draw(*shape, seed=seed)
    return (a @ adjoint(a) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def near(got, want, scale=1.0):
    """Within rounding of the size of what is compared."""
    want = np.asarray(want)
    size = max(1.0, float(np.abs(want).max())) if want.size else 1.0
    eps = 3e-6 if got.dtype in (fl.float32, fl.complex64) else 2e-13
    assert tuple(got.shape) == want.shape
    assert np.abs(got.numpy().astype(np.complex128) - want).max(initial=0) <= eps * size * scale


def unit(q):
    near(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])), 10)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape, batch", CASES, ids=str)
class TestFactors:
    def test_lu(self, shape, batch, dtype):
        a = draw(*batch, *shape, dtype=dtype)
        p, lower, u = linalg.lu(fl.tensor(a))
        near(p @ lower @ u, a, 10 + max(shape))
        assert lower.dtype is fl.tensor(a).dtype and bool((fl.tril(u, -1) == 0).all())
        if a.size and not batch:
            want = scipy.linalg.lu_factor(a)
            near(linalg.lu_factor(fl.tensor(a)).LU, want[0], 100)
            assert (linalg.lu_factor(fl.tensor(a)).pivots.numpy() == want[1] + 1).all()

    def test_qr(self, shape, batch, dtype):
        a, (m, n) = draw(*batch, *shape, dtype=dtype), shape
        for mode, k in (("reduced", min(m, n)), ("complete", m)):
            q, r = linalg.qr(fl.tensor(a), mode)
            assert q.shape == (*batch, m, k) and r.shape == (*batch, k, n)
            near(q @ r, a, 10 + max(shape))
            unit(q)
        empty, alone = linalg.qr(fl.tensor(a), "r")
        assert empty.numel() == 0
        near(alone, linalg.qr(fl.tensor(a))[1].numpy(), 10)

    def test_svd(self, shape, batch, dtype):
        a, (m, n) = draw(*batch, *shape, dtype=dtype), shape
        k = min(m, n)
        for full in (True, False):
            u, s, vh = linalg.svd(fl.tensor(a), full)
            assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k) and not s.is_complex()
            near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, 20)
            unit(u), unit(vh.mH)
        near(linalg.svdvals(fl.tensor(a)), s.numpy(), 3)

    def test_lstsq_and_pinv(self, shape, batch, dtype):
        a, b = draw(*batch, *shape, dtype=dtype), draw(*batch, shape[0], 2, dtype=dtype, seed=1)
        if shape[0] == shape[1]:
            a = positive(*batch, *shape, dtype=dtype)
        wide = np.linalg.pinv(a.astype(np.complex128)) if a.size else np.zeros((*batch, shape[1], shape[0]))
        near(linalg.pinv(fl.tensor(a)), wide, 100)
        near(linalg.lstsq(fl.tensor(a), fl.tensor(b)).solution, wide @ b, 300)

    def test_reflectors(self, shape, batch, dtype):
        a, (m, n) = draw(*batch, *shape, dtype=dtype), shape
        if m < n:
            return
        q, r = linalg.qr(fl.tensor(a))
        reflectors, tau = fl.geqrf(fl.tensor(a))
        near(fl.triu(reflectors[..., :n, :]), r.numpy(), 10)
        near(linalg.householder_product(reflectors, tau), q.numpy(), 10)
        whole = linalg.qr(fl.tensor(a), "complete")[0]
        b = draw(*batch, m, 2, dtype=dtype)
        near(fl.ormqr(reflectors, tau, fl.tensor(b), transpose=True), adjoint(whole.numpy()) @ b, 30)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n, batch", SQUARES, ids=str)
class TestSquare:
    def test_cholesky(self, n, batch, dtype):
        a = positive(*batch, n, n, dtype=dtype)
        want = np.linalg.cholesky(a.astype(np.complex128))
        near(linalg.cholesky(fl.tensor(a)), want, 10)
        near(linalg.cholesky(fl.tensor(a), upper=True), adjoint(want), 10)
        near(fl.cholesky_inverse(fl.tensor(want.astype(dtype))), np.linalg.inv(a.astype(np.complex128)), 30)
        near(fl.cholesky_inverse(fl.tensor(adjoint(want).astype(dtype)), True), np.linalg.inv(a.astype(np.complex128)), 30)

    def test_solve_and_inverse(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype), draw(*batch, n, 3, dtype=dtype, seed=1)
        exact = np.linalg.inv(a.astype(np.complex128))
        near(linalg.inv(fl.tensor(a)), exact, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b)), exact @ b, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b).mT, left=False), np.swapaxes(b, -1, -2) @ exact, 10)
        near(linalg.solve(fl.tensor(a), fl.tensor(b[..., 0])), (exact @ b)[..., 0], 10)
        near(linalg.solve(fl.tensor(a).mT, fl.tensor(b)), np.swapaxes(exact, -1, -2) @ b, 10)  # strided

    def test_lu_solve(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype) + draw(n, n, dtype=dtype), draw(*batch, n, 3, dtype=dtype, seed=1)
        exact = np.linalg.inv(a.astype(np.complex128))
        factors = linalg.lu_factor(fl.tensor(a))
        near(linalg.lu_solve(*factors, fl.tensor(b)), exact @ b, 30)
        near(linalg.lu_solve(*factors, fl.tensor(b), adjoint=True), adjoint(exact) @ b, 30)
        near(linalg.lu_solve(*factors, fl.tensor(b).mT, left=False), np.swapaxes(b, -1, -2) @ exact, 30)
        near(linalg.lu_solve(*factors, fl.tensor(b).mT, left=False, adjoint=True), np.swapaxes(b, -1, -2) @ adjoint(exact), 30)

    def test_triangles(self, n, batch, dtype):
        a, b = positive(*batch, n, n, dtype=dtype), draw(*batch, n, 2, dtype=dtype, seed=1)
        for upper in (True, False):
            for one in (True, False):
                t = np.triu(a, 1 if one else 0) if upper else np.tril(a, -1 if one else 0)
                t = t / max(n, 1) + (np.eye(n) if one else 0)
                exact = np.linalg.inv(t.astype(np.complex128))
                given = fl.tensor(t.astype(dtype))
                near(linalg.solve_triangular(given, fl.tensor(b), upper=upper, unitriangular=one), exact @ b, 100)
                got = linalg.solve_triangular(given, fl.tensor(b).mT, upper=upper, left=False, unitriangular=one)
                near(got, np.swapaxes(b, -1, -2) @ exact, 100)

    def test_determinants(self, n, batch, dtype):
        a = draw(*batch, n, n, dtype=dtype) / max(1, n) ** 0.5
        near(linalg.det(fl.tensor(a)), np.linalg.det(a.astype(np.complex128)), 30)
        sign, log = linalg.slogdet(fl.tensor(a))
        want = np.linalg.slogdet(a.astype(np.complex128))
        near(sign, want[0], 10)
        near(log, want[1], 100)
        assert not log.is_complex()
        near(fl.logdet(fl.tensor(a)).exp(), np.linalg.det(a.astype(np.complex128)), 100)

    def test_eigh(self, n, batch, dtype):
        a = positive(*batch, n, n, dtype=dtype)
        for side in "LU":
            part = np.tril(a) if side == "L" else np.triu(a)
            w, v = linalg.eigh(fl.tensor(part.astype(dtype)), side)
            near((v * w.unsqueeze(-2)) @ v.mH, a, 20)
            unit(v)
        near(linalg.eigvalsh(fl.tensor(a)), w.numpy(), 20)

    def test_eig(self, n, batch, dtype):
        for kind in (dtype, np.float32 if dtype is np.complex64 else np.float64):
            a = (draw(*batch, n, n) if kind is dtype else draw(*batch, n, n).real).astype(kind)
            w, v = linalg.eig(fl.tensor(a))
            assert w.dtype is v.dtype is (fl.complex64 if dtype is np.complex64 else fl.complex128)
            near(fl.tensor(a).to(v.dtype) @ v, (v * w.unsqueeze(-2)).numpy(), 100)
            near((v.abs() ** 2).sum(-2), np.ones((*batch, n)), 10)
            near(fl.sort(linalg.eigvals(fl.tensor(a)).real, -1)[0], np.sort(w.real.numpy(), -1), 300)

    def test_exponential(self, n, batch, dtype):
        a = draw(*batch, n, n, dtype=dtype)
        near(linalg.matrix_exp(fl.tensor(a)), scipy.linalg.expm(a.astype(np.complex128)) if a.size else a, 100)


def test_real_eigenvalues_of_symmetric_matrices_are_complex_numbers():
    w, v = linalg.eig(fl.eye(3))
    assert w.dtype is fl.complex64 and v.dtype is fl.complex64 and w.tolist() == [1 + 0j] * 3


@pytest.mark.parametrize("scale", [0.0, 1e-3, 30.0, 300.0])
def test_exponentials_of_all_sizes(scale):
    h = positive(4, 4)
    a = 1j * h / np.abs(h).sum() * scale  # unitary
    near(linalg.matrix_exp(fl.tensor(a)), scipy.linalg.expm(a), 1000)


def test_norms():
    a = draw(2, 3, 4)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        near(linalg.matrix_norm(fl.tensor(a), order), np.linalg.norm(a, order, axis=(1, 2)), 10)
    for order in (0, 1, 2, 3.5, np.inf, -np.inf):
        near(linalg.vector_norm(fl.tensor(a), order, 1), np.linalg.norm(a, order, axis=1), 10)
    square = draw(2, 3, 3)
    for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        near(linalg.cond(fl.tensor(square), p), np.linalg.cond(square, p), 100)
    low = draw(5, 2) @ draw(2, 5)
    assert linalg.matrix_rank(fl.tensor(low)).item() == 2 and linalg.matrix_rank(fl.tensor(low @ adjoint(low)), hermitian=True).item() == 2
    near(linalg.pinv(fl.tensor(low @ adjoint(low)), hermitian=True), np.linalg.pinv(low @ adjoint(low), hermitian=True), 100)


def test_products():
    a = draw(2, 3, 3)
    for n in (-2, 0, 1, 5):
        near(linalg.matrix_power(fl.tensor(a), n), np.linalg.matrix_power(a, n), 300)
    x, y = draw(2, 3), draw(3)
    near(linalg.vecdot(fl.tensor(x), fl.tensor(y)), (x.conj() * y).sum(-1), 10)
    near(linalg.cross(fl.tensor(x), fl.tensor(x[::-1].copy())), np.cross(x, x[::-1]), 10)
    near(linalg.vander(fl.tensor(y), N=4), np.vander(y, 4, True), 10)
    near(linalg.multi_dot([fl.tensor(x), fl.tensor(a[0]), fl.tensor(y)]), x @ a[0] @ y, 10)
    t = draw(2, 3, 6)
    near(linalg.tensorinv(fl.tensor(t.reshape(2, 3, 3, 2))), np.linalg.tensorinv(t.reshape(2, 3, 3, 2)), 300)
    near(linalg.tensorsolve(fl.tensor(t), fl.tensor(draw(2, 3))), np.linalg.tensorsolve(t, draw(2, 3)), 300)


# ---------------------------------------------------------------------------------------- gradients


def hermitian(a):
    return a @ a.mH + 3 * fl.eye(a.shape[-1])


def without_phase(v):
    """The projections on eigenvectors, in which phases cancel."""
    return v.unsqueeze(-2) * fl.conj(v).unsqueeze(-3)


GRADIENTS = {
    "solve": (lambda a, b: linalg.solve(a, b), [(2, 3, 3), (2, 3, 2)]),
    "solve, right": (lambda a, b: linalg.solve(a, b, left=False), [(3, 3), (2, 2, 3)]),
    "inv": (linalg.inv, [(2, 3, 3)]),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=True), [(3, 3), (3, 2)]),
    "unitriangular": (lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True), [(3, 3), (3, 2)]),
    "lu_factor": (lambda a: linalg.lu_factor(a)[0], [(2, 3, 3)]),
    "lu_factor, wide": (lambda a: linalg.lu_factor(a)[0], [(2, 4)]),
    "lu_factor, tall": (lambda a: linalg.lu_factor(a)[0], [(4, 2)]),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True), [(3, 3), (3, 2)]),
    "det": (linalg.det, [(2, 3, 3)]),
    "slogdet": (lambda a: tuple(linalg.slogdet(a)), [(2, 3, 3)]),
    "logdet": (fl.logdet, [(3, 3)]),
    "cholesky": (lambda a: linalg.cholesky(hermitian(a)), [(2, 3, 3)]),
    "cholesky, upper": (lambda a: linalg.cholesky(hermitian(a), upper=True), [(3, 3)]),
    "cholesky_solve": (lambda a, b: fl.cholesky_solve(b, linalg.cholesky(hermitian(a))), [(3, 3), (3, 2)]),
    "qr": (lambda a: tuple(linalg.qr(a)), [(2, 3, 3)]),
    "qr, tall": (lambda a: tuple(linalg.qr(a)), [(4, 2)]),
    "qr, wide": (lambda a: tuple(linalg.qr(a)), [(2, 4)]),
    "householder_product": (linalg.householder_product, [(4, 3), (2,)]),
    "eigvalsh": (lambda a: linalg.eigvalsh(hermitian(a)), [(2, 3, 3)]),
    "eigh": (lambda a: (lambda w, v: (w, without_phase(v)))(*linalg.eigh(hermitian(a))), [(3, 3)]),
    "svdvals": (linalg.svdvals, [(2, 4, 3)]),
    "svd": (lambda a: (lambda u, s, vh: (u @ (s.exp().unsqueeze(-1) * vh), without_phase(u)))(*linalg.svd(a, False)), [(3, 3)]),
    "svd, tall": (lambda a: (lambda u, s, vh: u @ (s.exp().unsqueeze(-1) * vh))(*linalg.svd(a, False)), [(4, 2)]),
    "svd, wide": (lambda a: (lambda u, s, vh: (u @ (s.exp().unsqueeze(-1) * vh), without_phase(vh.mT)))(*linalg.svd(a, False)), [(2, 4)]),
    "pinv": (linalg.pinv, [(4, 2)]),
    "pinv, wide": (linalg.pinv, [(2, 4)]),
    "lstsq": (lambda a, b: linalg.lstsq(a, b).solution, [(4, 2), (4, 1)]),
    "matrix_exp": (linalg.matrix_exp, [(2, 3, 3)]),
    "matrix_norm": (lambda a: linalg.matrix_norm(a, "nuc"), [(3, 2)]),
    "eigvals": (linalg.eigvals, [(2, 3, 3)]),
    "eig": (lambda a: (lambda w, v: (w, without_phase(v)))(*linalg.eig(a)), [(3, 3)]),
    "f(A) by eig": (lambda a: (lambda w, v: v @ (w.exp().unsqueeze(-1) * linalg.inv(v)))(*linalg.eig(a)), [(3, 3)]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    f, shapes = GRADIENTS[name]
    inputs = [fl.tensor(draw(*s, seed=k)).requires_grad_() for k, s in enumerate(shapes)]
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eigvals", "eig", "f(A) by eig"])
def test_gradient_of_real_matrices(name):
    f, shapes = GRADIENTS[name]
    inputs = [fl.tensor(draw(*s, seed=k).real.copy()).requires_grad_() for k, s in enumerate(shapes)]
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


def test_eigvals_of_a_function_of_the_matrix():
    """The sum of eigenvalues is the trace, and of their squares that of the square."""
    a = fl.tensor(draw(4, 4).real.copy()).requires_grad_()
    (linalg.eigvals(a) ** 2).sum().real.backward()
    near(a.grad, 2 * a.detach().numpy().T, 10)


def test_gradient_of_a_singular_determinant():
    a = draw(3, 3)
    a[2] = a[0] * (1 + 2j)
    x = fl.tensor(a).requires_grad_()
    linalg.det(x).real.backward()
    cofactors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)] for i in range(3)]
    near(x.grad, np.conj(cofactors), 10)


REFUSED = {
    "eig": (lambda a: linalg.eig(a).eigenvectors.sum().real, "linalg.eig: eigenvectors are specified up to"),
    "eigh": (lambda a: linalg.eigh(hermitian(a))[1].sum().imag, "linalg.eigh: eigenvectors are specified up to"),
    "svd": (lambda a: linalg.svd(a)[0].sum().imag, "linalg.svd: singular vectors are specified up to"),
    "qr r": (lambda a: linalg.qr(a, "r")[1].abs().sum(), "use mode = 'reduced'"),
    "qr complete": (lambda a: linalg.qr(a[:, :2], "complete")[0].abs().sum(), "mode = 'complete' has no derivative there"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_backward_is_refused(name):
    f, text = REFUSED[name]
    with pytest.raises(fl.AutogradError, match=text):
        f(fl.tensor(draw(3, 3)).requires_grad_()).backward()


# ---------------------------------------------------------------------------------------- errors

ONE, NAN = fl.eye(2, dtype=fl.complex64), fl.full((3, 2, 2), float("nan"), dtype=fl.complex64)
ERRORS = [
    (lambda: linalg.inv(ONE * 0), linalg.LinAlgError, "linalg.inv: The diagonal element 1 is zero"),
    (lambda: linalg.solve(fl.stack([ONE, ONE * 0]), ONE[0]), linalg.LinAlgError, r"linalg.solve: \(Batch element 1\): The solver failed"),
    (lambda: linalg.cholesky(-ONE), linalg.LinAlgError, "leading minor of order 1"),
    (lambda: linalg.lu_factor(ONE * 0), linalg.LinAlgError, r"U\[1,1\] is zero"),
    (lambda: linalg.eigh(NAN), linalg.LinAlgError, r"linalg.eigh: \(Batch element 0\): The algorithm failed to converge"),
    (lambda: linalg.svd(NAN), linalg.LinAlgError, "linalg.svd: .*failed to converge"),
    (lambda: linalg.eig(NAN[0].real), linalg.LinAlgError, "linalg.eig: The algorithm failed to converge"),
    (lambda: linalg.eig(fl.ones(2, 3)), fl.ShapeError, "A must be batches of square matrices"),
    (lambda: linalg.eigvals(fl.ones(2)), fl.ShapeError, r"linalg.eigvals: A has shape \[2\]"),
    (lambda: linalg.eig(fl.ones(2, 2, dtype=fl.int64)), fl.DTypeError, "A is flambeau.int64; expected float32, float64, complex64"),
    (lambda: linalg.eig([1]), TypeError, "A is a list; expected a Tensor"),
    (lambda: linalg.inv(ONE[:1]), fl.ShapeError, "linalg.inv: A must be batches of square matrices.*1 by 2"),
    (lambda: linalg.solve(ONE, fl.eye(2)), fl.DTypeError, "linalg.solve.*flambeau.complex64 and flambeau.float32; expected one dtype"),
    (lambda: linalg.solve(ONE, ONE[:1]), fl.ShapeError, r"expected B.shape\[-2\] == A.shape\[-1\]"),
    (lambda: linalg.qr(ONE, "full"), ValueError, "mode = 'full'; expected 'reduced'"),
    (lambda: linalg.eigh(ONE, "X"), ValueError, "UPLO = 'X'; expected 'L' or 'U'"),
]  # fmt: skip


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("call, kind, text", ERRORS, ids=range(len(ERRORS)))
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_ex_functions_tell_matrices_apart():
    one = fl.eye(3, dtype=fl.complex128)
    bad = fl.diag(fl.tensor([1, -1, 1], dtype=fl.complex128))
    found = linalg.cholesky_ex(fl.stack([one, bad, one * 4]))
    assert found.info.tolist() == [0, 2, 0] and found.info.dtype is fl.int32
    near(found.L[2], 2 * np.eye(3))
    inverse, info = linalg.inv_ex(fl.stack([one, one * 0, one * 2]))
    assert info.tolist() == [0, 1, 0]
    near(inverse[2], np.eye(3) / 2)
    assert bool(inverse[1].isnan().all())
    assert linalg.solve_ex(one * 0, one).info.item() == 1 and linalg.lu_factor_ex(bad * 0).info.item() == 1


def test_results_have_the_names_of_real_ones():
    a = fl.tensor(draw(3, 3))
    for f in (linalg.qr, linalg.svd, linalg.eigh, linalg.slogdet, linalg.inv_ex):
        assert type(f(a)) is type(f(a.real))
    assert linalg.eig(a)._fields == ("eigenvalues", "eigenvectors")


def test_meta():
    a = fl.empty(5, 4, 3, dtype=fl.complex64, device="meta")
    u, s, vh = linalg.svd(a)
    assert u.is_meta and u.shape == (5, 4, 4) and u.dtype is fl.complex64 and s.dtype is fl.float32 and vh.shape == (5, 3, 3)
    square = fl.empty(2, 3, 3, device="meta")
    w, v = linalg.eig(square)
    assert w.is_meta and w.dtype is fl.complex64 and v.shape == (2, 3, 3) and linalg.eigvals(square).shape == (2, 3)
    assert linalg.inv(v).is_meta and linalg.det(v).shape == (2,)


@pytest.mark.eager("the moment at which an error is raised")
def test_out():
    a = fl.tensor(draw(3, 3))
    out = fl.empty(3, 3, dtype=fl.complex128)
    assert linalg.inv(a, out=out) is out
    near(out, np.linalg.inv(a.numpy()), 10)
    w, v = fl.empty(0, dtype=fl.complex128), fl.empty(0, dtype=fl.complex128)
    assert linalg.eig(a, out=(w, v)).eigenvalues is w
    near(a @ v, (v * w).numpy(), 10)


def test_no_warnings_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.lu_factor_ex(fl.full((3, 3), float("nan"), dtype=fl.complex64))
        linalg.matrix_exp(fl.full((3, 3), 1e30, dtype=fl.complex64))
        linalg.slogdet(fl.zeros(2, 2, dtype=fl.complex64))


@pytest.mark.parametrize(
    "call",
    [
        lambda A: fl.linalg.norm(A, "foo"),
        lambda A: fl.linalg.matrix_norm(A, 3),
        lambda A: fl.linalg.norm(A, dim=(0, 1, 1)),
        lambda A: fl.linalg.cond(A, "foo"),
        lambda A: fl.linalg.tensorinv(A, ind=0),
        lambda A: fl.linalg.vander(A, N=1),
        lambda A: fl.linalg.multi_dot([A]),
        lambda A: fl.linalg.lstsq(A, A, driver="foo"),
    ],
)
def test_arguments_that_do_not_fit_are_runtime_errors(call):
    with pytest.raises(RuntimeError, match="linalg"):
        call(fl.eye(2))
