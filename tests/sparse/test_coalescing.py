"""Coalescing: places in order, values of one place added in the order in which they are given; sums of sparse tensors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd import gradcheck

# Axes with indices, dense ones, how many places.
KINDS = [((7,), (), 0), ((7,), (), 20), ((4, 5), (), 1), ((4, 5), (), 60), ((4, 5), (3,), 30), ((2, 3, 4), (2, 2), 40), ((50, 60), (), 12)]


def draw(size, dense, nnz, seed=0):
    rng = np.random.default_rng([seed, nnz, *size])
    return np.stack([rng.integers(0, n, nnz) for n in size]), rng.standard_normal((nnz, *dense))


def summed(indices, values, size, dense):
    """All elements, and the places that have any, in order."""
    every = np.zeros((*size, *dense), values.dtype)
    for k in range(indices.shape[1]):
        every[tuple(indices[:, k])] += values[k]
    return every, sorted(set(map(tuple, indices.T.tolist())))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "dense", "nnz"), KINDS)
def test_values_of_a_place_are_added_in_their_order(size, dense, nnz, dtype):
    indices, values = draw(size, dense, nnz)
    values = values.astype(dtype)
    x = fl.sparse_coo_tensor(fl.tensor(indices), fl.tensor(values), (*size, *dense))
    y = x.coalesce()
    every, places = summed(indices, values, size, dense)
    assert y.is_coalesced() and y._nnz() == len(places)
    assert list(map(tuple, y.indices().t().tolist())) == places
    np.testing.assert_array_equal(y.to_dense().numpy(), every)  # to the last bit
    again = x.coalesce()
    assert again.indices().tolist() == y.indices().tolist() and again.values().tolist() == y.values().tolist()


@pytest.mark.parametrize(("size", "dense", "nnz"), [kind for kind in KINDS if kind[2] < 40])
def test_gradients(size, dense, nnz):
    indices, values = draw(size, dense, nnz)
    at, v = fl.tensor(indices), fl.tensor(values, requires_grad=True)
    where = fl.tensor(draw(size, dense, nnz, 1)[0])
    assert gradcheck(lambda v: fl.sparse_coo_tensor(at, v, (*size, *dense)).coalesce().values(), (v,))

    def both(a, b):
        first, second = (fl.sparse_coo_tensor(i, w, (*size, *dense)).coalesce() for i, w in ((at, a), (where, b)))
        return (first + second).values()

    assert gradcheck(both, (v, fl.tensor(values, requires_grad=True)))


@pytest.mark.parametrize(("size", "dense", "nnz"), KINDS)
@pytest.mark.parametrize("in_order", [(True, True), (True, False), (False, False)])
def test_a_sum_is_coalesced_where_both_are(size, dense, nnz, in_order):
    parts = []
    for seed, coalesced in enumerate(in_order):
        indices, values = draw(size, dense, nnz, seed)
        x = fl.sparse_coo_tensor(fl.tensor(indices), fl.tensor(values), (*size, *dense))
        parts.append(x.coalesce() if coalesced else x)
    a, b = parts
    for got, want in [(a + b, a.to_dense() + b.to_dense()), (a - b, a.to_dense() - b.to_dense())]:
        assert got.is_coalesced() == (a.is_coalesced() and b.is_coalesced())
        np.testing.assert_allclose(got.to_dense().numpy(), want.numpy(), rtol=1e-12, atol=1e-14)


def test_a_product_says_what_it_is_given():
    three = fl.sparse_coo_tensor([[0], [1], [1]], [1.0], (2, 2, 2))
    dense = fl.sparse_coo_tensor([[0], [1]], [[1.0, 2.0]], (2, 2, 2))
    for x in (three, dense):
        with pytest.raises(RuntimeError, match=r"the sparse matrix has shape \[2, 2, 2\], the dense one \[2, 2\]"):
            fl.sparse.mm(x, fl.ones(2, 2))
    with pytest.raises(RuntimeError, match="1 axes with indices and 1 dense ones; expected a matrix"):
        fl.sparse.mm(fl.sparse_coo_tensor([[0]], [[1.0, 2.0]], (2, 2)), fl.ones(2, 2))
