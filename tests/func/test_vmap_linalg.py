"""`vmap` of linear algebra: one call for all samples, also where arguments differ in their number of axes, of real and complex matrices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau.func import grad, vmap

CALLS = {
    "solve of a vector": lambda a, b: fl.linalg.solve(a, b),
    "solve of rows": lambda a, b: fl.linalg.solve(a, b[None], left=False),
    "solve_ex": lambda a, b: fl.linalg.solve_ex(a, b).result,
    "tensorsolve": lambda a, b: fl.linalg.tensorsolve(a, b),
    "inv": lambda a, b: fl.linalg.inv(a) * b,
    "lu": lambda a, b: fl.linalg.lu(a).L * b,
    "lu_solve": lambda a, b: fl.linalg.lu_solve(*fl.linalg.lu_factor(a), b[:, None]),
    "ldl": lambda a, b: fl.linalg.ldl_solve(*fl.linalg.ldl_factor(a + a.mT), b[:, None]),
    "householder_product": lambda a, b: fl.linalg.householder_product(*fl.geqrf(a)) * b,
    "cross": lambda a, b: fl.linalg.cross(fl.cat([b, b[:1]]), fl.cat([b[1:], a[0]])),
    "cross of columns": lambda a, b: fl.linalg.cross(fl.cat([a, a[:1]]), fl.cat([a[1:], a]) * b, dim=0),
    "eig": lambda a, b: fl.linalg.eig(a).eigenvalues * b,
    "eigvals": lambda a, b: fl.linalg.eigvals(a) * b,
    "eigh": lambda a, b: fl.linalg.eigh(a @ a.mH).eigenvalues * b,
    "svd": lambda a, b: fl.linalg.svdvals(a) * b,
    "cholesky": lambda a, b: fl.linalg.cholesky(a @ a.mH) * b,
    "det": lambda a, b: fl.linalg.det(a) * b,
    "slogdet": lambda a, b: fl.linalg.slogdet(a).logabsdet * b,
    "qr": lambda a, b: fl.linalg.qr(a).R * b,
    "matrix_exp": lambda a, b: fl.linalg.matrix_exp(a) * b,
    "lstsq": lambda a, b: fl.linalg.lstsq(a, b[:, None]).solution,
}


def numbers(*shape, kind, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return fl.tensor(x + 1j * rng.standard_normal(shape) if kind is fl.complex128 else x)


@pytest.mark.parametrize("kind", [fl.float64, fl.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("name", CALLS)
def test_all_samples_at_once(name, in_dims, kind):
    args = [numbers(*(4,) * (d == 0), *shape, kind=kind, seed=i) for i, (d, shape) in enumerate(zip(in_dims, [(2, 2), (2,)], strict=True))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is called once per sample says so
        found = vmap(CALLS[name], in_dims=in_dims)(*args)
    expected = fl.stack([CALLS[name](*(a[i] if d == 0 else a for a, d in zip(args, in_dims, strict=True))) for i in range(4)])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["solve of a vector", "cross", "inv", "lu_solve"])
def test_gradients_of_samples(name):
    a, b = numbers(4, 2, 2, kind=fl.float64, seed=0), numbers(4, 2, kind=fl.float64, seed=1)
    slope = grad(lambda a, b: CALLS[name](a, b).sin().sum(), argnums=(0, 1))
    found = vmap(slope)(a, b)
    for i in range(4):
        for got, expected in zip(found, slope(a[i], b[i]), strict=True):
            np.testing.assert_allclose(got[i].numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [fl.float64, fl.complex128], ids=["real", "complex"])
def test_a_singular_sample_is_named(kind):
    a = fl.stack([fl.eye(2, dtype=kind), fl.zeros(2, 2, dtype=kind)])
    with pytest.raises(fl.linalg.LinAlgError, match=r"Batch element 1.*singular"):
        vmap(lambda m, v: fl.linalg.solve(m, v))(a, fl.ones(2, 2, dtype=kind)).sum().item()


def test_batches_of_batches():
    a, b = numbers(3, 4, 2, 2, kind=fl.complex128, seed=0), numbers(3, 4, 2, kind=fl.complex128, seed=1)
    found = vmap(vmap(fl.linalg.solve))(a, b)
    np.testing.assert_allclose(found.numpy(), fl.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1).numpy(), rtol=1e-9)
    factors = vmap(vmap(lambda m: fl.linalg.ldl_factor(m + m.mT).LD))(a)
    np.testing.assert_allclose(factors.numpy(), fl.linalg.ldl_factor(a + a.mT).LD.numpy(), rtol=1e-9)
