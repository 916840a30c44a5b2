"""Which argument is which: what a replay has to know of tensors that are one another, or that the function reaches by another way, too."""

from __future__ import annotations

import pytest

import flambeau as fl

replayed = fl.compile(mode="replay")


def leaf(start):
    return fl.tensor([start, start + 1, start + 2]).requires_grad_()


def same(f, *args):
    """Whether a call of a compiled function gives what the function does, on tensors like these."""
    got, wanted = f(*args), f.function(*args)
    return all(fl.equal(a, b) for a, b in zip(got, wanted, strict=True))


def asks_for_first(x, y):
    return fl.autograd.grad((x.sin() + y.exp()).sum(), [x])


def asks_for_both(x, y):
    return fl.autograd.grad((x.sin() * y.exp()).sum(), [x, y], materialize_grads=True)


@pytest.mark.parametrize("function", [asks_for_first, asks_for_both])
@pytest.mark.parametrize("second", [lambda a: a, lambda a: a * 2, lambda a: a.view(3), lambda a: a[:]], ids=["itself", "made of it", "a view", "a part"])
def test_gradients_of_arguments_that_hang_together(function, second):
    f = replayed(function)
    for n in range(5):
        assert same(f, leaf(0.1 * n), leaf(0.5))
    for _ in range(4):
        a = leaf(0.2)
        assert same(f, a, second(a))
    assert same(f, leaf(0.3), leaf(0.4))


def test_gradients_that_are_kept():
    @replayed
    def step(x, y):
        (x * y.exp()).sum().backward()

    for x, y in [(leaf(0.1), leaf(0.2)) for _ in range(4)] + [(a, a) for a in [leaf(0.3)] * 4]:
        x.grad = y.grad = None
        step(x, y)
        grads = x.grad, y.grad
        x.grad = y.grad = None
        (x * y.exp()).sum().backward()
        assert fl.equal(grads[0], x.grad) and fl.equal(grads[1], y.grad)


def test_which_argument_comes_back():
    @replayed
    def f(x, y):
        return y, x + 1

    a, b = fl.ones(2), fl.zeros(2)
    for _ in range(4):
        assert f(a, a)[0] is a
    for _ in range(4):
        assert f(a, b)[0] is b


@pytest.mark.parametrize("kinds", ["other", "own", "other own", "own other", "own own other other own"])
@pytest.mark.parametrize("asks", [False, True], ids=["values", "gradients"])
def test_what_the_function_reaches_by_another_way(kinds, asks):
    own = leaf(1.0)

    def function(x):
        y = (own * x.sin()).sum()
        return fl.autograd.grad(y, [own]) if asks else (y.detach(),)

    f = replayed(function)
    for kind in kinds.split():
        for n in range(4):
            assert same(f, own if kind == "own" else leaf(0.5 + n))
    assert same(f, leaf(3.0)) and same(f, own)


def test_one_argument_all_the_time_is_replayed():
    @replayed
    def f(x, y):
        return x * y + 1

    x, y = fl.ones(3), fl.full((3,), 2.0)
    before = fl.compiler.stats()["replayed"]
    for _ in range(9):
        assert f(x, y).tolist() == [3, 3, 3]
    assert fl.compiler.stats()["replayed"] >= before + 4


def test_many_arguments():
    @replayed
    def f(xs):
        return sum(xs[1:], xs[0]), xs[-1]

    a = [fl.full((2,), float(i)) for i in range(70)]
    for _ in range(4):
        total, last = f([*a, a[3]])
        assert total.tolist() == [70 * 69 / 2 + 3] * 2 and last is a[3]
        total, last = f([*a, a[50]])
        assert total.tolist() == [70 * 69 / 2 + 50] * 2 and last is a[50]


@pytest.mark.parametrize("before", range(4))
def test_another_argument_where_a_freed_one_lay(before):
    reached = [leaf(1.0)]

    @replayed
    def f(x):
        return (reached[0] * x.sin()).detach()

    for _ in range(4):
        f(reached[0])
    reached[0] = leaf(2.0)
    others = [leaf(float(n)) for n in range(before)]
    x = leaf(5.0)
    assert fl.equal(f(x), f.function(x)), others
