"""Replay: what comes back lies in the memory in which it lies in eager mode, and is a view of what it is a view of there."""

from __future__ import annotations

import pytest
from support.replays import CALLS, replayed

import flambeau as fl

pytestmark = pytest.mark.filterwarnings("ignore:compile:UserWarning")


def _seen(x, results):
    """What a program sees that writes into each of the results and of the arguments in turn."""
    tensors = [*results, x]
    bases = [t._base for t in tensors]
    seen = [[t._is_view() for t in tensors], [[b is not None and a is b for a in bases] for b in bases], [[b is t for t in tensors] for b in bases]]
    for t in tensors:
        t.add_(1)
        seen.append([(u._version, u.tolist()) for u in tensors])
    return seen


def _hidden(x):
    return x * 2 + 1


FUNCTIONS = {
    "two of what nobody returns": lambda x: ((h := _hidden(x))[:2], h[1:]),
    "one": lambda x: (_hidden(x)[1:],),
    "one, and its detached base": lambda x: ((h := _hidden(x))[:2], h.detach()),
    "parts": lambda x: _hidden(x).split(1),
    "rows": lambda x: fl.stack([x, x + 1]).unbind(0),
    "of a view": lambda x: ((h := _hidden(x).view(3, 1))[1:], h.t()),
    "real numbers": lambda x: (fl.view_as_real(fl.complex(x, x)),),
    "bits": lambda x: ((h := _hidden(x)), h.view(fl.int32)),
    "written": lambda x: ((h := _hidden(x))[:2].add_(1), h[1:].mul_(2)),
    "of each": lambda x: (_hidden(x)[1:], _hidden(x)[:2], x[1:]),
    "of the argument": lambda x: (x[1:],),
    "two of the argument": lambda x: (x[1:], x.view(3, 1)),
    "the argument, detached": lambda x: (x.detach(),),
    "the argument's bits": lambda x: (x.view(fl.int32),),
    "a constant": lambda x: (fl.ones(3), x * 2),
    "a constant alone": lambda x: (fl.tensor([1.0, 2.0]),),
    "views of a constant": lambda x: ((h := fl.zeros(3))[1:], h[:2]),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("view", [False, True], ids=["whole", "view"])
def test_memory_of_results(function, view):
    compiled = fl.compile(function, mode="replay")
    for k in range(CALLS):
        seen = []
        for f in (function, compiled):
            x = fl.arange(6.0)[1:4] + k if not view else (fl.arange(6.0) + k)[1:4]
            seen.append(_seen(x, f(x)))
        assert seen[0] == seen[1]
    assert replayed(compiled)


def test_views_that_are_made_without_gradients():
    def f(x):
        with fl.no_grad():
            return x[1:], x.detach()[:2], x * 2

    compiled = fl.compile(f, mode="replay")
    for _ in range(CALLS):
        x = fl.ones(3, requires_grad=True)
        assert [(y.requires_grad, y.grad_fn, y.is_leaf) for y in compiled(x)] == [(y.requires_grad, y.grad_fn, y.is_leaf) for y in f(x)]


KEPT = []


@pytest.mark.eager("a function that is called while its caller records is not replayed")
@pytest.mark.parametrize("keep", [lambda h: h, lambda h: h.detach(), lambda h: h[1:]], ids=["itself", "detached", "a view"])
def test_what_a_result_is_a_view_of_and_lives_on(keep):
    def f(x):
        h = x * 2
        KEPT[:] = [keep(h)]
        return h[:2]

    compiled = fl.compile(f, mode="replay")
    for k in range(CALLS):
        compiled(fl.full((3,), float(k)))
        assert KEPT[0][0].item() == 2 * k
    assert "lives on" in fl.compiler.explain(compiled)


def test_what_an_argument_is_a_view_of_and_is_kept():
    def f(x):
        KEPT[:] = [x._base]
        return x * 2

    compiled = fl.compile(f, mode="replay")
    for k in range(CALLS):
        whole = fl.full((4,), float(k))
        compiled(whole[1:])
        assert KEPT[0] is whole


@pytest.mark.eager("a function that is called while its caller records is not replayed")
def test_what_is_neither_an_argument_nor_made_is_said_to_be():
    there = fl.ones(3)
    compiled = fl.compile(lambda x: there, mode="replay")
    for _ in range(CALLS):
        assert compiled(fl.ones(3)) is there
    assert "neither got nor made" in fl.compiler.explain(compiled)
