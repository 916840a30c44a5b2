"""Views that a custom Function returns: their memory is the base's, their backward is the Function's, and a write leaves nobody who knows both."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.autograd import Function, grad


class Rows(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, dy):
        return dy.view(2, 2) * 10


@pytest.fixture
def x():
    return fl.ones(2, 2, requires_grad=True)


def test_it_has_a_base_and_the_gradient_of_its_function(x):
    base = x.clone()
    y = Rows.apply(base)
    assert y._base is base and y.data_ptr() == base.data_ptr()
    assert grad(y.sum(), x)[0].tolist() == [[10, 10], [10, 10]]
    assert grad(Rows.apply(x.clone())[1:].sum(), x)[0].tolist() == [[0, 10], [10, 10]]


@pytest.mark.parametrize("part", [lambda y: y, lambda y: y[1:], lambda y: y.detach().requires_grad_() * y])
def test_after_a_write_to_its_base_nobody_knows_its_gradient(x, part):
    base = x.clone()
    y = Rows.apply(base)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="made by a custom Function"):
        part(y).sum().backward()


def test_after_a_write_to_it_without_gradients_neither(x):
    base = x.clone()
    y = Rows.apply(base)
    with fl.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="made by a custom Function"):
        y.sum().backward()


def test_it_is_not_written_to(x):
    y = Rows.apply(x.clone())
    for written in (y, y[1:], y.view(2, 2)):
        with pytest.raises(RuntimeError, match="created inside a custom Function"):
            written.mul_(2)
    assert y.tolist() == [1, 1, 1, 1]
    y.detach().mul_(2)
    assert y.tolist() == [2, 2, 2, 2]


def test_what_was_computed_before_a_write_and_copies_are_as_they_were(x):
    base = x.clone()
    y = Rows.apply(base)
    total, copy = (y * 3).sum(), y.clone()
    base.mul_(2)
    assert grad(total, x)[0].tolist() == [[30, 30], [30, 30]] and grad(copy.sum(), x)[0].tolist() == [[10, 10], [10, 10]]


def test_other_memory_makes_it_a_tensor_like_others(x):
    y = Rows.apply(x.clone())
    y.data = fl.zeros(4)
    y.mul_(2)
    assert grad(y.sum(), x)[0].tolist() == [[20, 20], [20, 20]]
