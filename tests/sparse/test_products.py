"""Products that are sparse, sums that keep their axes, and checks of gradients with sparse inputs."""

from __future__ import annotations

import pytest
from support.compare import assert_near

import flambeau as fl

DENSE = fl.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]], dtype=fl.float64)
RIGHT = fl.arange(6.0, dtype=fl.float64).reshape(3, 2)


def test_rows_of_a_product():
    found = fl.hspmm(DENSE.to_sparse(), RIGHT)
    assert (found.sparse_dim(), found.dense_dim(), found.indices().tolist()) == (1, 1, [[0, 2]])
    assert_near(found.to_dense(), DENSE @ RIGHT)
    with pytest.raises(RuntimeError, match=r"\[2, 3\]"):
        fl.hspmm(DENSE.to_sparse(), RIGHT.t())
    with pytest.raises(TypeError, match="mat2 is a SparseCOO; expected a dense tensor"):
        fl.hspmm(DENSE.to_sparse(), RIGHT.to_sparse())


def test_places_of_a_product():
    found = DENSE.to_sparse().smm(RIGHT)
    assert found.indices().tolist() == [[0, 0, 2, 2], [0, 1, 0, 1]]
    assert_near(found.to_dense(), DENSE @ RIGHT)
    empty = fl.smm(fl.zeros(2, 3).to_sparse(), fl.ones(3, 2))
    assert empty._nnz() == 0 and empty.shape == (2, 2)


def test_a_product_and_a_sparse_matrix():
    start = fl.eye(3, 2, dtype=fl.float64)
    found = start.to_sparse().sspaddmm(DENSE.to_sparse(), RIGHT, beta=2, alpha=3)
    assert found._nnz() == 6 and not found.is_coalesced()
    assert_near(found.to_dense(), 2 * start + 3 * DENSE @ RIGHT)
    with pytest.raises(RuntimeError, match=r"input has shape \[3, 3\], the product \[3, 2\]"):
        fl.sspaddmm(DENSE.to_sparse(), DENSE.to_sparse(), RIGHT)
    with pytest.raises(TypeError, match=r"input is .*float32, the product .*float64"):
        fl.sspaddmm(start.float().to_sparse(), DENSE.to_sparse(), RIGHT)


@pytest.mark.parametrize("dim", [0, 1, (0, 1), None])
@pytest.mark.parametrize("layout", [fl.sparse_coo, fl.sparse_csr, fl.sparse_csc])
def test_sums_that_keep_their_axes(layout, dim):
    x = DENSE.to_sparse(layout=layout)
    found = x.sum(dim, keepdim=True)
    assert found.layout is layout
    assert_near(found.to_dense(), DENSE.sum(dim, keepdim=True))


def test_a_sum_over_a_dense_axis_keeps_it():
    x = fl.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert x.sum(1, keepdim=True).to_dense().tolist() == [[3.0], [0.0], [7.0]]
    assert x.sum((0, 1), keepdim=True).to_dense().tolist() == [[10.0]]


FUNCTIONS = {
    "dense": lambda s, m: s.to_dense() ** 2,
    "product": lambda s, m: fl.sparse.mm(s, m),
    "sparse result": lambda s, m: s * 3,
    "rows": lambda s, m: fl.hspmm(s, m),
    "sum": lambda s, m: s.sum(0, keepdim=True),
}


@pytest.mark.parametrize("layout", [fl.sparse_coo, fl.sparse_csr])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_checked(name, layout):
    x = DENSE.to_sparse(layout=layout).requires_grad_()
    before = x.values().tolist()
    inputs = (x, RIGHT.clone().requires_grad_())
    check = fl.sparse.as_sparse_gradcheck(fl.autograd.gradcheck)
    assert check(FUNCTIONS[name], inputs, masked=True)
    assert fl.autograd.gradgradcheck(FUNCTIONS[name], inputs, masked=True)
    assert x.values().tolist() == before and x.grad is None


def test_a_wrong_gradient_by_a_sparse_input_is_found():
    class Wrong(fl.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = DENSE.to_sparse().requires_grad_()
    with pytest.raises(RuntimeError, match=r"backward gives 3.0, finite differences 1.99"):
        fl.autograd.gradcheck(lambda s: Wrong.apply(s.values()), x)


@pytest.mark.parametrize("layout", [fl.sparse_coo, fl.sparse_csr])
def test_gradients_from_and_by_sparse_tensors(layout):
    x = DENSE.to_sparse(layout=layout).requires_grad_()
    y = x * x
    (g,) = fl.autograd.grad(y, x, y.detach(), create_graph=True)
    assert g.layout is layout
    assert_near(g.to_dense(), 2 * DENSE**3)
    (second,) = fl.autograd.grad(g.to_dense().sum(), x)
    assert_near(second.to_dense(), 2 * DENSE**2)  # of 2 v y by v: y is constant, as the gradient that was given
    fl.autograd.backward(x * 2, DENSE, inputs=[x])
    assert_near(x.grad.to_dense(), 2 * DENSE)
