"""Derivatives of ops that need care, what has none, and gradcheck, which finds wrong ones."""

from __future__ import annotations

import itertools
import warnings

import pytest
from support.compare import assert_near
from support.tensors import leaf

import flambeau as fl


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(0.5, 1.0)
    with pytest.raises(RuntimeError, match=r"backward gives 3.0, finite differences \d"):
        fl.autograd.gradcheck(Wrong.apply, (x,))
    assert not fl.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)


def identity(backward):
    class Identity(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    Identity.backward = staticmethod(backward)
    return Identity.apply


def test_gradcheck_finds_a_backward_that_differs_from_call_to_call():
    calls = itertools.cycle(range(7))
    drifting = identity(lambda ctx, g: g * (1 + 1e-7 * next(calls)))
    slowly = identity(lambda ctx, g: slowly(g) * (1 + 1e-12 * next(calls)))
    x = leaf(0.5, 1.0)
    with pytest.raises(RuntimeError, match=r"gives 1\.\d+ and then 1\.\d+ by the same element of input\[0\] \(nondet_tol 0.0\)"):
        fl.autograd.gradcheck(drifting, (x,))
    assert not fl.autograd.gradcheck(drifting, (x,), raise_exception=False)
    assert fl.autograd.gradcheck(drifting, (x,), nondet_tol=1e-4)
    with pytest.raises(RuntimeError, match="and then"):
        fl.autograd.gradgradcheck(slowly, (x,))
    assert fl.autograd.gradgradcheck(slowly, (x,), nondet_tol=1e-9)


def test_gradcheck_finds_a_backward_that_does_not_multiply():
    added = identity(lambda ctx, g: g + 1e-2)
    with pytest.raises(RuntimeError, match=r"by input\[0\] that is not 0 where those of all outputs are"):
        fl.autograd.gradcheck(added, (leaf(0.5),), atol=0.1)
    assert not fl.autograd.gradcheck(added, (leaf(0.5),), atol=0.1, raise_exception=False)


def test_gradcheck_finds_gradients_of_another_layout():
    with pytest.raises(RuntimeError, match=r"grad is incorrect layout by input\[0\]: flambeau.sparse_coo, where the input is flambeau.strided"):
        fl.autograd.gradcheck(identity(lambda ctx, g: g.to_sparse()), (leaf(0.5),))


@pytest.mark.parametrize(("dtype", "wanted"), [(fl.float32, "float64"), (fl.complex64, "complex128")], ids=str)
def test_gradcheck_warns_of_few_digits(dtype, wanted):
    exact, coarse = fl.ones(1, dtype=fl.float64, requires_grad=True), fl.ones(1, dtype=dtype, requires_grad=True)
    with pytest.warns(UserWarning, match=rf"gradcheck: input\[1\] is {dtype}, which has too few digits .* expected {wanted}"):
        fl.autograd.gradcheck(lambda x, y: x + y.real, (exact, coarse), raise_exception=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.autograd.gradcheck(lambda x: x * 2, (exact,))


def test_gradgradcheck():
    assert fl.autograd.gradgradcheck(lambda x: x.exp() * x, (leaf(0.5, -1.0),))


def test_gradcheck_moves_what_the_function_knows_by_another_way():
    layer, x = fl.nn.Linear(2, 1).double(), leaf(0.5, -1.0)
    before = [p.tolist() for p in layer.parameters()]
    assert fl.autograd.gradcheck(lambda *_: layer(x).sigmoid(), tuple(layer.parameters()))
    assert fl.autograd.gradgradcheck(lambda *_: layer(x).sigmoid(), tuple(layer.parameters()))
    assert [p.tolist() for p in layer.parameters()] == before


def test_gradcheck_calls_the_function_with_its_history():
    def slope(x):
        y = (x * x * x).sum()
        return fl.autograd.grad(y, x, create_graph=True)[0]

    assert fl.autograd.gradcheck(slope, (leaf(0.5, -1.0),))


def test_gradcheck_leaves_graphs_that_saved_the_input_as_they_were():
    x = leaf(0.5, -1.0)
    y = (x * x).sum()
    assert fl.autograd.gradcheck(fl.sin, (x,))
    y.backward()
    assert x.grad.tolist() == [1.0, -2.0]


def test_gradcheck_of_elements_that_lie_in_one_place():
    assert fl.autograd.gradcheck(lambda x: x * x, (leaf(0.5).expand(3),))


def test_a_gradient_without_a_derivative_is_refused_and_not_zero():
    x, grid = fl.randn(1, 1, 3, 3), fl.rand(1, 2, 2, 2).requires_grad_()
    y = fl.nn.functional.grid_sample(x, grid, align_corners=False).square()
    for _ in range(2):
        (y,) = fl.autograd.grad(y.sum(), grid, create_graph=True)
    with pytest.raises(RuntimeError, match="grid_sample_double_backward: has no formula for the gradient by"):
        y.sum().backward()


def test_an_op_without_a_formula_refuses_backward_and_not_the_call():
    x = fl.randn(8, requires_grad=True)
    h = fl.special.airy_ai(x)
    assert h.requires_grad
    with pytest.raises(RuntimeError, match="airy_ai: has no formula for the gradient by 'x'"):
        h.sum().backward()
    assert x.grad is None


def test_gradient_of_a_floating_point_attention_mask():
    q, k, v = (fl.randn(2, 3, 4, 5, dtype=fl.float64, requires_grad=True) for _ in range(3))
    mask = fl.randn(3, 1, 4, dtype=fl.float64)
    mask[1, 0, 2] = -float("inf")
    mask.requires_grad_()

    def composed(q, k, v, mask):
        return fl.softmax(q @ k.transpose(-2, -1) * 0.5 + mask, dim=-1) @ v

    w = fl.randn(2, 3, 4, 5, dtype=fl.float64)
    fused = fl.autograd.grad((fl.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=0.5) * w).sum(), [q, k, v, mask])
    for got, wanted in zip(fused, fl.autograd.grad((composed(q, k, v, mask) * w).sum(), [q, k, v, mask])):
        assert_near(got, wanted)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_are_differentiable_twice_beside_zeros(zeros):
    x = fl.tensor([[0.5, -1.5, 2.0], [1.0, 3.0, -0.5]], dtype=fl.float64)
    x[0, :zeros] = 0
    x.requires_grad_()
    fl.autograd.gradgradcheck(lambda x: x.prod(), (x,))
    fl.autograd.gradgradcheck(lambda x: x.prod(dim=1), (x,))
    fl.autograd.gradgradcheck(lambda x: x.cumprod(dim=1), (x,))
