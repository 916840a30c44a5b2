"""Jacobians, Hessians and their products against what they are on paper."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd import functional as A


def vector(*values):
    return fl.tensor(values, dtype=fl.float64)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(strategy):
    matrix = fl.tensor(np.random.default_rng(0).standard_normal((3, 2)))
    found = A.jacobian(lambda x: matrix @ x, vector(1.0, 2.0), strategy=strategy)
    np.testing.assert_allclose(found.numpy(), matrix.numpy())
    (xx, xy), (yx, yy) = A.jacobian(lambda x, y: (x * y, y.sum()), (vector(1.0, 2.0), vector(3.0, 4.0)), strategy=strategy)
    assert xx.tolist() == [[3, 0], [0, 4]] and xy.tolist() == [[1, 0], [0, 2]]
    assert yx.tolist() == [0, 0] and yy.tolist() == [1, 1]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_jacobian_of_nothing(shape, strategy):
    assert A.jacobian(lambda x: x * 2, fl.ones(shape), strategy=strategy).shape == (*shape, *shape)
    assert A.jacobian(lambda x: x.sum(), fl.ones(shape), strategy=strategy).shape == shape


def test_hessian_and_its_products():
    x, v = vector(1.0, 2.0, 3.0), vector(1.0, 0.0, -1.0)

    def f(t):
        return (t**3).sum() + t.prod()

    h = A.hessian(f, x).numpy()
    np.testing.assert_allclose(h, [[6, 3, 2], [3, 12, 1], [2, 1, 18]])
    y, found = A.hvp(f, x, v)
    assert y.item() == 42
    np.testing.assert_allclose(found.numpy(), h @ v.numpy())
    np.testing.assert_allclose(A.vhp(f, x, v)[1].numpy(), v.numpy() @ h)
    forward = A.hessian(f, x, outer_jacobian_strategy="forward-mode")
    np.testing.assert_allclose(forward.numpy(), h)


def test_the_inputs_and_the_mode_are_left_alone():
    x = vector(1.0, 2.0).requires_grad_()
    with fl.no_grad():
        found = A.jacobian(lambda t: t * t, x)
        assert not fl.is_grad_enabled()
    assert found.tolist() == [[2, 0], [0, 4]] and not found.requires_grad and x.grad is None


def test_third_derivatives():
    x = vector(2.0).requires_grad_()
    h = A.hessian(lambda t: (t**4).sum(), x, create_graph=True)
    (third,) = fl.autograd.grad(h.sum(), x)
    assert third.tolist() == [48]


@pytest.mark.parametrize(
    "call",
    [
        lambda: A.jacobian(lambda x: fl.ones(2), fl.ones(2), strict=True),
        lambda: A.jacobian(lambda x, y: x, (fl.ones(2), fl.ones(2)), strict=True),
        lambda: A.vjp(lambda x, y: x, (fl.ones(2), fl.ones(2)), fl.ones(2), strict=True),
        lambda: A.hessian(lambda x: x.sum(), fl.ones(2), strict=True),
        lambda: A.hvp(lambda x: fl.relu(x).sum(), fl.ones(2), fl.ones(2), strict=True),
        lambda: A.jvp(lambda x: x * 2, fl.ones(2), fl.ones(2), create_graph=True, strict=True),
    ],
)
def test_strict(call):
    with pytest.raises(RuntimeError, match="strict"):
        call()


def test_vectorized_forward_mode():
    x, y = vector(1.0, 2.0), vector(3.0, 4.0)
    f = lambda a, b: (a * b, (a @ b).exp())  # noqa: E731
    rows = A.jacobian(f, (x, y))
    columns = A.jacobian(f, (x, y), vectorize=True, strategy="forward-mode")
    for row, column in zip(rows, columns):
        for a, b in zip(row, column):
            np.testing.assert_allclose(a.numpy(), b.numpy())
            assert not b.requires_grad
    leaf = vector(1.0, 2.0).requires_grad_()
    A.jacobian(lambda t: t**3, leaf, create_graph=True, vectorize=True, strategy="forward-mode").sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), [6, 12])
    for strategy in ("reverse-mode", "forward-mode"):
        np.testing.assert_allclose(A.hessian(lambda t: (t**3).sum(), x, vectorize=True, outer_jacobian_strategy=strategy).numpy(), [[6, 0], [0, 12]])
    crossed = A.hessian(lambda a, b: (a @ b) ** 2, (x, y), vectorize=True)
    np.testing.assert_allclose(crossed[0][1].numpy(), A.hessian(lambda a, b: (a @ b) ** 2, (x, y))[0][1].numpy())


@pytest.mark.parametrize("of", [fl.autograd.functional.jacobian, lambda f, x: fl.func.jacrev(f)(x)], ids=["jacobian", "jacrev"])
def test_a_jacobian_by_sparse_gradients_is_dense(of):
    index, weight = fl.tensor([[1, 3], [1, 0]]), fl.ones(4, 2, dtype=fl.float64)
    sparse, dense = (of(lambda w, kind=kind: fl.nn.functional.embedding(index, w, sparse=kind) ** 2, weight) for kind in (True, False))
    assert sparse.shape == (2, 2, 2, 4, 2) and sparse.equal(dense)


@pytest.mark.parametrize("name", ["hvp", "vhp", "hessian"])
@pytest.mark.parametrize("result", [lambda x: (x.sum(),), lambda x: 1.0])
def test_what_is_no_tensor_is_refused_by_the_function_that_was_called(name, result):
    x = vector(1.0, 2.0)
    for error in (TypeError, RuntimeError):  # programs for PyTorch catch one or the other
        with pytest.raises(error, match=f"The function given to {name} should return a single Tensor .*(tuple|float)"):
            getattr(A, name)(result, *((x,) if name == "hessian" else (x, x)))


@pytest.mark.parametrize("product", [A.hvp, A.vhp])
def test_the_value_keeps_its_shape(product):
    value, found = product(lambda x: (x * x).sum().reshape(1), vector(1.0, 2.0), vector(1.0, 0.0))
    assert value.tolist() == [5.0] and found.tolist() == [2.0, 0.0]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_a_jacobian_that_nothing_holds_is_refused_before_its_rows(strategy):
    with pytest.raises(RuntimeError, match="576460752303423488"):
        fl.autograd.functional.jacobian(lambda x: x * 2, fl.empty(2**59, device="meta"), strategy=strategy)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(AssertionError, match="strategy = 'both'; expected 'reverse-mode' or 'forward-mode'"):
        A.jacobian(lambda x: x, vector(1.0), strategy="both")


@pytest.mark.parametrize("create_graph", [False, True])
def test_vectorized_results_have_a_graph_where_one_is_asked_for(create_graph):
    x = vector(1.0, 2.0)
    cube = lambda t: (t**3).sum()  # noqa: E731
    found = A.hessian(cube, x, create_graph=create_graph, vectorize=True)
    slopes = A.jacobian(cube, x, create_graph=create_graph, vectorize=True, strategy="forward-mode")
    assert found.requires_grad == slopes.requires_grad == create_graph
    assert not x.requires_grad
