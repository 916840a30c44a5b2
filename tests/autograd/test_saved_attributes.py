"""What a node shows of what it keeps: `y.grad_fn._saved_self`, as programs that draw graphs and tutorials read it."""

from __future__ import annotations

import pytest

import flambeau as fl


def test_an_input_and_an_output_are_seen():
    x = fl.randn(3, requires_grad=True)
    y = x.exp()
    assert fl.equal(y.grad_fn._saved_result, y) and y.grad_fn._saved_result.grad_fn is y.grad_fn
    z = x * 2 * x
    assert fl.equal(z.grad_fn._saved_self, x * 2) and fl.equal(z.grad_fn._saved_other, x)
    assert fl.equal(z.grad_fn._saved_input, x * 2)  # the other name of a first argument
    assert {"_saved_self", "_saved_other"} <= set(dir(z.grad_fn))
    (again,) = fl.autograd.grad(z.grad_fn._saved_other.sum(), x)
    assert again.tolist() == [1, 1, 1]


def test_numbers_lists_and_several_outputs():
    x = fl.rand(2, 3, requires_grad=True)
    assert (x * 3.0).grad_fn._saved_other == 3.0
    assert x.max(1).values.grad_fn._saved_indices.tolist() == x.max(1).indices.tolist()
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute '_saved_nothing'"):
        _ = (x * x).grad_fn._saved_nothing
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute 'nothing'"):
        _ = (x * x).grad_fn.nothing
    assert not hasattr(x.sum().grad_fn, "_saved_self")


def test_what_a_write_or_a_backward_took_is_refused():
    x = fl.randn(3, requires_grad=True)
    y = x.exp()
    fn = y.grad_fn
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified|overwritten|changed|wrote|add_"):
        _ = fn._saved_result
    y = x.exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        _ = y.grad_fn._saved_result


def test_a_function_shows_its_context():
    class Cube(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.power = 3
            return x**3

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * dy

    x = fl.randn(3, requires_grad=True)
    y = Cube.apply(x)
    assert y.grad_fn.power == 3 and fl.equal(y.grad_fn.saved_tensors[0], x)


def test_hooks_unpack_what_is_shown():
    x = fl.randn(3, requires_grad=True)
    with fl.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = x.exp()
    assert fl.equal(y.grad_fn._saved_result, y)


@pytest.mark.parametrize("index, expected", [
    ((slice(None), slice(1, None)), (1, 2**63 - 1, 1, 1)),
    (slice(None), (0, 2**63 - 1, 0, 1)),
    ((..., slice(None, None, 2)), (0, 2**63 - 1, 1, 2)),
    (slice(1, 2), (1, 2, 0, 1)),
])  # fmt: skip
def test_open_sides_of_slices_are_numbers(index, expected):
    node = fl.ones(3, 4, requires_grad=True)[index].grad_fn
    assert (node._saved_start, node._saved_end, node._saved_dim, node._saved_step) == expected
