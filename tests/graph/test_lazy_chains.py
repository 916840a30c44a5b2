"""Element-wise ops that are recorded one after another go through memory once: the same bits, whatever they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from support.both import both

import flambeau as fl
from flambeau import _C

F = fl.nn.functional
pytestmark = pytest.mark.eager("has regions of its own")


def floats(dtype):
    return lambda shape: fl.randn(shape).to(dtype)


def steps(x, y):
    a = x * y + 1.5
    b = (a - x).tanh()
    return b, (b * 2 + a).relu(), a.sigmoid() * b.abs().sqrt()


SHAPES = {
    "same": ((5, 7), (5, 7)),
    "row": ((5, 7), (7,)),
    "column": ((5, 7), (5, 1)),
    "grows": ((1, 7), (5, 1)),
    "middle": ((3, 1, 4), (3, 5, 4)),
    "number": ((5, 7), ()),
    "0-d": ((), ()),
    "empty": ((0, 3), (0, 3)),
    "empty row": ((4, 0), (1,)),
    "one": ((1,), (1,)),
    "many tiles": ((3, 2111), (3, 2111)),
    "many tiles, row": ((5, 1500), (1500,)),
    "six axes": ((2, 1, 3, 1, 2, 5), (1, 4, 1, 2, 1, 5)),
}


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16, fl.bfloat16], ids=str)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes(shapes, dtype):
    make = floats(dtype)
    both(lambda: steps(*(make(shape) for shape in shapes)))


def test_they_are_joined():
    """The tests here would see nothing if nothing were joined."""
    x, y = fl.randn(64, 64), fl.randn(64, 64)
    before = _C.graph.stats()
    with fl.lazy():
        kept = steps(x, y)
    after = _C.graph.stats()
    assert len(kept) == 3
    assert after["joined"] - before["joined"] == 11 and after["passes"] - before["passes"] == 1


@pytest.mark.parametrize("dtype", [fl.int64, fl.int32, fl.int16, fl.int8, fl.uint8], ids=str)
def test_integers(dtype):
    def program():
        x = fl.randint(0, 120, (9, 31)).to(dtype)
        y = fl.randint(1, 9, (31,)).to(dtype)
        a = x * y + y
        b = a // y - x
        return b, a % y, (a & y) | x, a > b, (a == x).to(dtype) + y, a / y

    both(program)


def test_bools():
    def program():
        x = fl.randn(6, 40)
        up, big = x > 0, x.abs() > 1
        both_of_them = up & ~big
        return both_of_them, up ^ big, fl.where(both_of_them, x, -x) * 2, both_of_them * 3, (x == x).logical_not()

    both(program)


def test_mixed_types():
    def program():
        x, n = fl.randn(6, 40), fl.randint(-5, 5, (6, 40))
        wide = x.double() * n
        low = (wide + 1).to(fl.bfloat16)
        return wide, low, low * n, (low.float() * x).int() + n, n.clamp(-2, 2) * 0.5

    both(program)


def test_in_place():
    def program():
        x = fl.randn(8, 33)
        y = x.clone()
        a = y * 2
        y.mul_(3).add_(a).clamp_(-1, 1)
        b = y - a
        a.sub_(b)
        y[2:4].neg_()
        y.t()[3].exp_()
        y.add_(y)
        return x, y, a, b

    both(program)


@pytest.mark.parametrize("view", [
    lambda x: x.t(), lambda x: x[::2], lambda x: x[:, ::3], lambda x: x.t()[1:, ::2], lambda x: x[None].expand(3, -1, -1),
    lambda x: x.flip(0), lambda x: x[3],
], ids=["transposed", "rows", "columns", "both", "expanded", "flipped", "row"])  # fmt: skip
def test_views(view):
    def program():
        x = fl.randn(12, 45)
        a = view(x) * 2 + 1
        b = a - view(x)
        return a, b, (b.relu() + view(x)).exp() * a

    both(program)


@pytest.mark.parametrize("dtype", [fl.float32, fl.bfloat16], ids=str)
def test_channels_last_after_a_convolution(dtype):
    def program():
        x = fl.randn(2, 16, 9, 9, dtype=dtype, requires_grad=True)
        w = fl.randn(16, 16, 3, 3, dtype=dtype)
        y = F.conv2d(x, w, padding=1)
        z = (y * 0.5 + 1).relu()
        plain = z + x
        half = y[:, :8] * 2 - 1
        column = y * fl.randn(16, 1, 1, dtype=dtype) + 1
        written = z * 1
        written.add_(1).mul_(y.detach())
        s = plain.float().sum() + half.float().sum()
        s.backward()
        return z, plain, half, column, written, y.sum(1), x.grad

    both(program)


def test_a_sum_over_what_was_made_of_a_convolution_may_have_another_order():
    """The mean, which would have put the bytes in order, is wanted by nobody; docs/lazy.md says so."""

    def program():
        fl.manual_seed(0)
        x, w, b = fl.randn(2, 4, 8, 8), fl.randn(4, 4, 3, 3), fl.zeros(4, requires_grad=True)
        F.conv2d(x, w, b).exp().mean().backward()
        return b.grad

    with fl.lazy():
        recorded = program()
    np.testing.assert_allclose(recorded.numpy(), program().numpy(), rtol=1e-5)


def test_long_chains():
    """Longer than one pass takes."""

    def program():
        x = fl.randn(1000)
        y = x
        kept = []
        for i in range(100):
            y = y * 1.01 + i if i % 3 else y.tanh()
            if i % 17 == 0:
                kept.append(y)
        return y, *kept

    both(program)


def test_many_operands():
    def program():
        xs = [fl.randn(70) for _ in range(30)]
        total = xs[0]
        for x in xs[1:]:
            total = total + x * x
        return total

    both(program)


# ---------------------------------------------------------------- random programs

UNARY = [fl.exp, fl.relu, fl.neg, fl.tanh, fl.abs, lambda x: x * 2, lambda x: 1 - x, lambda x: x.clamp(-1, 1), fl.sigmoid, lambda x: x > 0]
BINARY = [fl.add, fl.sub, fl.mul, fl.maximum, fl.minimum, lambda a, b: fl.where(a > b, a, b), lambda a, b: a / (b.abs() + 1)]
VIEWS = [lambda x: x.t(), lambda x: x[1:], lambda x: x[:, ::2], lambda x: x[:1], lambda x: x.unsqueeze(0).squeeze(0), lambda x: x.flip(1), lambda x: x.reshape(x.shape[1], -1)]
REDUCTIONS = [lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.amax(1, keepdim=True), lambda x: x.float().mean(0, keepdim=True), lambda x: x.float().softmax(1)]
WRITES = [
    lambda x, y: x.mul_(0.5), lambda x, y: x.add_(y), lambda x, y: x.zero_(), lambda x, y: x.clamp_(-2, 2), lambda x, y: x.copy_(y),
    lambda x, y: x.neg_(), lambda x, y: x[0].mul_(y.sum()), lambda x, y: x.t().sub_(1), lambda x, y: x[:, 0].fill_(3),
]  # fmt: skip
TYPES = [fl.float32, fl.float32, fl.float32, fl.bfloat16, fl.float64, fl.int32]


def random_program(seed):
    """A program of element-wise ops, views, writes in place, reductions and reads; what dies, dies early."""
    rng = np.random.default_rng(seed)

    def pick(list_):
        return list_[rng.integers(len(list_))]

    rows, columns = pick([(4, 6), (3, 50), (8, 300)])
    pool = [(fl.randn(rows, columns) * 3).to(pick(TYPES)) for _ in range(3)]
    read = []
    for _ in range(rng.integers(5, 40)):
        x, kind = pick(pool), rng.random()
        y = x
        try:
            if kind < 0.3:
                y = pick(UNARY)(x)
            elif kind < 0.55:
                y = pick(BINARY)(x, pick(pool))
            elif kind < 0.65:
                y = pick(VIEWS)(x)
            elif kind < 0.75:
                y = pick(REDUCTIONS)(x)
            elif kind < 0.93:
                pick(WRITES)(x, pick(pool))
            elif kind < 0.96:
                y = x.to(pick(TYPES))
            else:
                read.append(x.double().sum().item())
        except (TypeError, ValueError, RuntimeError, IndexError) as refused:  # the same ones in both modes
            read.append(str(refused))
        if y.dim() <= 2 and y.numel() > 0:
            pool.append(y)
        if len(pool) > 6:
            pool.pop(rng.integers(len(pool)))
    return [*pool, [repr(x) for x in read]]


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_random_programs(first):
    for seed in range(first, first + 20):
        both(random_program, seed)
