"""Writing in place through the graph: views and bases in both directions, versions, and the errors' texts."""

from __future__ import annotations

import inspect

import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau.autograd import grad, gradcheck, gradgradcheck


def leaf(*shape):
    return fl.randn(*shape, dtype=fl.float64, requires_grad=True)


# (name, function of a non-leaf [3, 4] and a [4]); each is checked against differences
WRITES = {
    "write to a view": lambda y, w: y[1].mul_(w),
    "write to a slice": lambda y, w: y[:, 1:3].exp_(),
    "write to a transposed view": lambda y, w: y.t()[0].add_(w[:3]),
    "write to a view of a view": lambda y, w: y[1:][:, 2:].mul_(3),
    "write to a reshaped view": lambda y, w: y.view(2, 6)[0].sin_(),
    "write to a diagonal": lambda y, w: y.diagonal().mul_(w[:3]),
    "write to a select": lambda y, w: y.select(0, 2).copy_(w),
    "write to an unsqueezed view": lambda y, w: y.unsqueeze(1)[:, 0, 0].square_(),
    "setitem": lambda y, w: y.__setitem__((slice(None), 1), w[:3] * y[:, 2].clone()),
    "setitem with a mask": lambda y, w: y.__setitem__(fl.tensor([True, False, True]), w),
    "setitem with indices": lambda y, w: y.__setitem__(([0, 1], [2, 3]), w[:2]),
    "fill": lambda y, w: y[0].fill_(2.0),
    "zero": lambda y, w: y[:, 0].zero_(),
    "whole": lambda y, w: y.mul_(w),
    "twice": lambda y, w: (y[0].mul_(w), y[:, 0].add_(y[:, 1])),
    "base after a view was taken": lambda y, w: (y[0], y.mul_(w)),
    "masked_fill": lambda y, w: y.masked_fill_(fl.tensor([True, False, True, False]), 0.5),
    "index_add": lambda y, w: y.index_add_(0, fl.tensor([0, 0]), fl.stack([w, w])),
    "narrow": lambda y, w: y.narrow(1, 2, 2).mul_(2),
    "split": lambda y, w: y.split(2, 1)[1].mul_(2),
    "as_strided": lambda y, w: y.as_strided((2, 2), (5, 1), 1).mul_(w[:2]),
    "squeeze": lambda y, w: y[0:1].squeeze(0).mul_(w),
    "expanded source": lambda y, w: y.copy_(w.expand(3, 4)),
    "clamp": lambda y, w: y.clamp_(-0.7, 0.9),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=[k.replace(" ", "_") for k in WRITES])
def test_write_then_backward_through_the_base(write):
    x, w = leaf(3, 4), leaf(4)

    def function(x, w):
        y = x * 2
        write(y, w)
        return (y * y).sum()

    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))


@pytest.mark.parametrize("write", WRITES.values(), ids=[k.replace(" ", "_") for k in WRITES])
def test_write_then_backward_through_a_view_taken_before(write):
    x, w = leaf(3, 4), leaf(4)

    def function(x, w):
        y = x * 2
        view, deep = y[0:2], y.t()[1:][:, 1:]
        write(y, w)
        return (view * view).sum() + deep.sin().sum()

    assert gradcheck(function, (x, w))


def test_view_sees_the_write_to_its_base_in_its_grad_fn():
    x = leaf(4)
    y = x * 1
    v = y[:2]
    before = v.grad_fn
    y.mul_(3)
    assert v.grad_fn is not before
    v.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0, 0.0]


def test_base_sees_the_write_to_its_view():
    x = leaf(4)
    y = x * 1
    v = y[:2]
    v.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 1.0, 1.0]


def test_constant_base_starts_to_require_grad():
    x = leaf(2)
    y = fl.zeros(4, dtype=fl.float64)
    v = y[1:3]
    v.copy_(x)
    assert y.requires_grad and v.requires_grad
    (y * fl.arange(4, dtype=fl.float64)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_buffer_filled_in_a_loop():
    x = leaf(5)
    rows = fl.zeros(5, 3, dtype=fl.float64)
    for i in range(5):
        rows[i] = x[i] * float(i)
    rows.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]


def test_inplace_chain_equals_out_of_place():
    a, b = leaf(5), None
    b = a.detach().clone().requires_grad_()
    (a * 1).add_(1).mul_(2).sub_(0.5).tanh_().sum().backward()
    (((b * 1 + 1) * 2) - 0.5).tanh().sum().backward()
    assert_near(a.grad, b.grad)


def test_operators_in_place():
    x = leaf(3)
    y = x * 1
    y += 1
    y *= 2
    y -= x
    y /= 4
    y **= 2
    expected = (((x + 1) * 2 - x) / 4) ** 2
    (g,) = grad(expected.sum(), x)
    y.sum().backward()
    assert_near(x.grad, g)


# ---------------------------------------------------------------- versions and errors


def test_versions_are_shared_by_views_and_count_writes():
    x = fl.zeros(4)
    v = x[:2]
    assert (x._version, v._version) == (0, 0)
    v.add_(1)
    assert (x._version, v._version) == (1, 1)
    x.zero_()
    assert v._version == 2
    assert x.clone()._version == 0


def test_overwritten_saved_tensor_names_both_ops_and_the_line():
    x = leaf(3)
    y = x.exp()
    z = y * y
    line = inspect.currentframe().f_lineno + 1
    y.add_(1)
    with pytest.raises(fl.AutogradError) as caught:
        z.sum().backward()
    text = str(caught.value)
    for part in ("MulBackward0", "float64 [3]", "add_", f"test_inplace.py:{line}", "y.add_(1)", "version 1", "saved at 0", "clone()"):
        assert part in text, f"{part!r} is missing from: {text}"
    assert x.grad is None


def test_overwritten_by_a_view_and_by_setitem():
    x = leaf(3)
    y = x.exp()
    z = y * y
    y[0] = 1.0
    with pytest.raises(fl.AutogradError, match=r"test_inplace.py:\d+"):
        z.sum().backward()


def test_writing_what_was_not_saved_is_fine():
    x = leaf(3)
    y = x + 1
    z = y + 2
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_saved_output_written_in_place():
    y = leaf(3).sigmoid()
    y.mul_(2)
    with pytest.raises(fl.AutogradError, match="SigmoidBackward.*mul_"):
        y.sum().backward()


@pytest.mark.parametrize(
    "write",
    [lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x[0].mul_(2), lambda x: x.__setitem__(0, 1.0), lambda x: x.copy_(fl.ones(3))],
    ids=["add_", "zero_", "view", "setitem", "copy_"],
)
def test_leaf_is_not_written(write):
    x = leaf(3)
    before, version = x.tolist(), x._version
    with pytest.raises(fl.AutogradError, match="leaf"):
        write(x)
    assert x.tolist() == before and x._version == version


def test_leaf_is_written_under_no_grad():
    x = leaf(3)
    with fl.no_grad():
        x.zero_()
        x[0] = 2.0
    assert x.tolist() == [2.0, 0.0, 0.0] and x.is_leaf


def test_write_to_one_part_of_a_split():
    x = leaf(4)
    a, b = (x * 1).split(2)
    a.mul_(2)
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0, 1.0]


def test_view_made_under_no_grad_is_not_written_with_grad():
    x = leaf(3) * 1
    with fl.no_grad():
        v = x[:2]
    with pytest.raises(fl.AutogradError, match="no_grad"):
        v.mul_(2)


def test_tensor_that_meets_itself_is_noticed():
    # The left operand is kept as a copy, the right one is the tensor that was overwritten.
    y = leaf(3) * 1
    y.mul_(y)
    with pytest.raises(fl.AutogradError, match="MulBackward.*mul_"):
        y.sum().backward()


def test_write_to_a_detached_alias_is_noticed():
    y = leaf(3).exp()
    d = y.detach()
    d.add_(1)
    with pytest.raises(fl.AutogradError, match="ExpBackward.*add_"):
        y.sum().backward()


def test_an_expanded_tensor_without_elements_is_written() -> None:
    x = fl.zeros(1, 0).expand(2, 0)
    assert x.add_(1) is x


@pytest.mark.parametrize("name, args, shape", [("transpose_", (0, 1), (1, 2)), ("t_", (), (1, 2)), ("squeeze_", (1,), (2,)), ("unsqueeze_", (0,), (1, 2, 1))])
def test_shapes_change_in_place_where_nothing_is_recorded(name, args, shape):
    p = fl.nn.Parameter(fl.tensor([[1.0], [2.0]]))
    with pytest.raises(fl.AutogradError, match="no_grad"):
        getattr(p, name)(*args)
    with fl.no_grad():
        assert getattr(p, name)(*args) is p
    assert p.shape == shape and p.requires_grad and p.is_leaf
    (p * fl.tensor([3.0, 4.0]).view(shape)).sum().backward()
    assert p.grad.shape == shape and p.grad.flatten().tolist() == [3.0, 4.0]

    y = fl.ones(2, 1, requires_grad=True) * 2
    with fl.no_grad():
        getattr(y, name)(*args)
    assert y.shape == shape and not y.is_leaf


@pytest.mark.parametrize("place", [lambda y: y[:2], lambda y: y.t()[1:], lambda y: y.unfold(0, 2, 1)[1]], ids=["rows", "turned", "window"])
@pytest.mark.parametrize("op", ["tanh", "sigmoid", "exp", "sqrt", "rsqrt", "reciprocal", "relu", "elu"])
def test_second_gradients_of_results_in_views(op, place):
    """The op keeps its result, which is part of a larger tensor by the time of the backward."""
    named = fl.nn.functional if op == "elu" else fl

    def program(x, w):
        y = x * w
        v = place(y)
        fl.nn.functional.elu_(v) if op == "elu" else getattr(v, op + "_")()
        return (y * y.flip(0)).sum() + (v * w[:1, :1]).sin().sum()

    def pure(x, w):
        y = x * w
        at = place(fl.arange(y.numel()).view(y.shape))
        flat = y.flatten()
        v = getattr(named, op)(flat[at])
        y = flat.index_put((at,), v).view(y.shape)
        return (y * y.flip(0)).sum() + (v * w[:1, :1]).sin().sum()

    fl.manual_seed(1)
    leaves = [(fl.rand(3, 2, dtype=fl.float64) + 0.5).requires_grad_() for _ in range(2)]
    got, wanted = [], []
    for f, into in ((program, got), (pure, wanted)):
        for leaf in leaves:
            leaf.grad = None
        first = fl.autograd.grad(f(*leaves), leaves, create_graph=True)
        sum((g * g.cos()).sum() for g in first).backward()
        into += [*first, *(leaf.grad for leaf in leaves)]
    for a, b in zip(got, wanted, strict=True):
        fl.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("write", [lambda y: y.mul_(2), lambda y: y[1:].mul_(2), lambda y: y.view(-1).add_(1).mul_(2)], ids=["all", "part", "view"])
@pytest.mark.parametrize("limited", [lambda y: fl.nn.functional.hardtanh_(y, -1, 0.5), lambda y: fl.nn.functional.relu6(y, inplace=True)], ids=["hardtanh", "relu6"])
@pytest.mark.parametrize("part", [False, True], ids=["whole", "of a view"])
def test_limited_in_place_and_then_written(limited, write, part):
    x = fl.tensor([-2.0, 0.3, 0.4, 9.0], dtype=fl.float64, requires_grad=True)

    def loss(x, apart):
        y = x * 3
        limited(y[:3] if part else y)
        y = y * 1 if apart else y
        write(y)
        return y.square().sum()

    assert fl.equal(grad(loss(x, False), x)[0], grad(loss(x, True), x)[0])


def test_limited_in_place_and_then_written_without_grad():
    x = fl.tensor([-2.0, 0.3, 9.0], requires_grad=True)
    y = fl.nn.functional.relu6(x * 1, inplace=True)
    with fl.no_grad():
        y.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
