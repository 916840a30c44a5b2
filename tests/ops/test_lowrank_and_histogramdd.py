"""Approximate factors, histograms of points, the nuclear norm, and variances with correction = None."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl


def of_rank(r, *shape, dtype="float64"):
    rng = np.random.default_rng([r, *shape])
    return fl.tensor((rng.standard_normal((*shape[:-1], r)) @ rng.standard_normal((*shape[:-2], r, shape[-1]))).astype(dtype))


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (2, 6, 4), (3, 3)])
def test_svd_lowrank_of_low_rank_is_exact(shape):
    A = of_rank(2, *shape)
    U, S, V = fl.svd_lowrank(A, q=3)
    assert fl.allclose((U * S.unsqueeze(-2)) @ V.mT, A)
    assert fl.allclose(S[..., :2], fl.linalg.svdvals(A)[..., :2])
    assert fl.allclose(U.mT @ U, fl.eye(3, dtype=A.dtype).expand(*shape[:-2], 3, 3))


def test_svd_lowrank_with_a_mean_and_complex_numbers():
    A, M = of_rank(2, 6, 5), fl.rand(5, dtype=fl.float64)
    U, S, V = fl.svd_lowrank(A + M, q=4, M=M)
    assert fl.allclose((U * S) @ V.mT, A)
    Z = fl.complex(A, of_rank(1, 6, 5))
    U, S, V = fl.svd_lowrank(Z, q=5)
    assert fl.allclose((U * S) @ V.mH, Z) and S.dtype == fl.float64


def test_pca_lowrank_takes_the_means():
    A = of_rank(2, 9, 5) + 7
    U, S, V = fl.pca_lowrank(A)
    assert V.shape == (5, 5) and fl.allclose((U * S) @ V.mT, A - A.mean(0))
    U, S, V = fl.pca_lowrank(A, q=3, center=False)
    assert fl.allclose((U * S) @ V.mT, A)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
def test_lowrank_of_a_sparse_matrix_takes_the_means_without_making_it_dense(shape, layout):
    A = of_rank(4, *shape) * (fl.arange(45).reshape(shape) % 3 == 0)
    sparse = getattr(A, layout)()
    U, S, V = fl.pca_lowrank(sparse, q=5)
    assert fl.allclose((U * S) @ V.mT, A - A.mean(0))
    assert fl.allclose(fl.pca_lowrank(sparse, q=5, center=False)[1], fl.linalg.svdvals(A))
    for M in (of_rank(1, *shape), of_rank(1, 1, shape[1]), of_rank(1, shape[0], 1), of_rank(1, 1, shape[1])[0]):
        U, S, V = fl.svd_lowrank(sparse, q=5, M=M)
        assert fl.allclose((U * S) @ V.mT, A - M)


def test_gradients_of_svd_lowrank():
    A = of_rank(3, 4, 3).requires_grad_()

    def value(A):
        fl.manual_seed(0)
        U, S, V = fl.svd_lowrank(A, q=3)
        return S

    assert fl.autograd.gradcheck(value, (A,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fl.svd_lowrank(fl.ones(3, 4), q=4), "svd_lowrank: q = 4 for matrices of 3 x 4; expected 0 <= q <= 3"),
        (lambda: fl.svd_lowrank(fl.ones(3), q=1), r"svd_lowrank: A is flambeau.float32 of shape \[3\]"),
        (lambda: fl.pca_lowrank(fl.ones(3, 4), niter=-1), "pca_lowrank: niter = -1"),
        (lambda: fl.svd_lowrank(fl.ones(3, 4), 2, 10**30), "svd_lowrank: niter = 10+; expected 0 to 1000"),
        (lambda: fl.pca_lowrank(fl.ones(3, 4, dtype=fl.int64)), "pca_lowrank: A is flambeau.int64"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- histogramdd


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["one", "each", "range", "edges"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [False, True])
def test_histogramdd_is_numpys(d, kind, weighted, density):
    rng = np.random.default_rng(d)
    points, weight = rng.standard_normal((40, d)), rng.random(40) if weighted else None
    edges = [np.linspace(-1, 1, 4), np.array([-2.0, 0.0, 0.5]), np.array([0.0, 3.0])][:d]
    bins = {"one": 3, "each": [3, 4, 2][:d], "range": 3, "edges": edges}[kind]
    bounds = [(-1.0, 1.5)] * d if kind == "range" else None
    want, want_edges = np.histogramdd(points, bins, bounds, density, weight)
    got = fl.histogramdd(
        fl.tensor(points), [fl.tensor(e) for e in edges] if kind == "edges" else bins, range=None if bounds is None else [v for b in bounds for v in b],
        weight=None if weight is None else fl.tensor(weight), density=density,
    )  # fmt: skip
    np.testing.assert_allclose(got.hist.numpy(), want)
    for a, b in zip(got.bin_edges, want_edges, strict=True):
        np.testing.assert_allclose(a.numpy(), b)


def test_histogramdd_of_odd_points():
    x = fl.tensor([[float("nan"), 0.0], [0.5, 0.5], [5.0, 0.0]])
    assert fl.histogramdd(x, 2, range=[0, 1, 0, 1]).hist.tolist() == [[0, 0], [0, 1]]
    assert fl.histogramdd(fl.ones(0, 2), [2, 3]).hist.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fl.histogramdd(fl.ones(3), 2), r"input is flambeau.float32 \[3\]"),
        (lambda: fl.histogramdd(fl.ones(3, 2), [2]), "1 bins for 2 coordinates"),
        (lambda: fl.histogramdd(fl.ones(3, 2), 2, range=[0, 1]), "range has 2 numbers; expected 4"),
        (lambda: fl.histogramdd(fl.ones(3, 2), 2, weight=fl.ones(2)), "weight is"),
        (lambda: fl.histogramdd(fl.ones(3, 2), 0), "bins = 0"),
    ],
)
def test_histogramdd_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- norms and variances


@pytest.mark.parametrize("dim", [(0, 1), (2, 0), (-1, -2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_nuclear_norm(dim, keepdim):
    x = fl.randn(2, 3, 4, dtype=fl.float64)
    want = np.linalg.norm(x.numpy(), "nuc", dim, keepdim)
    np.testing.assert_allclose(x.norm("nuc", dim, keepdim).numpy(), want)
    np.testing.assert_allclose(x.float().norm("nuc", dim, keepdim, dtype=fl.float64).numpy(), want, rtol=1e-5)


def test_nuclear_norm_has_a_gradient_and_refuses():
    x = fl.randn(3, 4, dtype=fl.float64).requires_grad_()
    assert fl.autograd.gradcheck(lambda x: x.norm("nuc"), (x,))
    with pytest.raises(fl.ShapeError, match="expected two axes, or a matrix"):
        fl.ones(2, 2, 2).norm("nuc")
    with pytest.raises(ValueError, match="appears multiple times"):
        fl.ones(2, 2).norm("nuc", (0, 0))
    with pytest.raises(TypeError, match=r"expected a real type, or linalg.matrix_norm"):
        fl.ones(2, 2, dtype=fl.complex64).norm("nuc")
    with pytest.raises(ValueError, match="expected a number, 'fro' or 'nuc'"):
        fl.ones(2, 2).norm("other")


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_correction_none_is_one(name):
    x = fl.randn(3, 4, dtype=fl.float64)
    for options in ({}, {"dim": 1}, {"dim": (0, 1), "keepdim": True}):
        got, want = getattr(fl, name)(x, correction=None, **options), getattr(fl, name)(x, correction=1, **options)
        got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
        assert all(fl.equal(a, b) for a, b in zip(got, want, strict=True))
