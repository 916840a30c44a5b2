"""What changes between two calls, beside their arguments, that a replay has to notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import flambeau as fl


@dataclass
class Setting:
    """A function of x with tensors that it closes over; events are logged."""

    function: Callable[[fl.Tensor], fl.Tensor]
    leaves: list[fl.Tensor]
    other: fl.Tensor
    log: list[Any] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)


def trains_two() -> Setting:
    w, b = fl.randn(3, requires_grad=True), fl.randn(3, requires_grad=True)

    def function(x: fl.Tensor) -> fl.Tensor:
        loss = (x * w + b).sum()
        loss.backward()
        return loss.detach()

    return Setting(function, [w, b], b)


def multiplies_by_a_buffer() -> Setting:
    w, buffer = fl.randn(3, requires_grad=True), fl.ones(3)
    return Setting(lambda x: x * buffer, [w], buffer)


def goes_through_a_history() -> Setting:
    w = fl.randn(3, requires_grad=True)
    h = w * 2

    def function(x: fl.Tensor) -> fl.Tensor:
        loss = (x * h).sum()
        loss.backward(retain_graph=True)
        return loss.detach()

    return Setting(function, [w], h)


def accumulator(s: Setting) -> Any:
    w = s.leaves[0]
    s.kept.append(w.expand_as(w).grad_fn.next_functions[0][0])
    return s.kept[-1]


def tripled(s: Setting) -> Callable[[fl.Tensor], fl.Tensor]:
    def hook(g: fl.Tensor) -> fl.Tensor:
        s.log.append("hook")
        return g * 3

    return hook


def retains(s: Setting) -> None:
    s.other.retain_grad()
    s.leaves.append(s.other)


EVENTS: dict[str, tuple[Callable[[], Setting], Callable[[Setting], Any]]] = {
    "detach_": (trains_two, lambda s: s.other.detach_()),
    "mul_": (multiplies_by_a_buffer, lambda s: s.other.mul_(s.leaves[0])),
    "mul_ of a view": (multiplies_by_a_buffer, lambda s: s.other[1:].mul_(s.leaves[0][1:])),
    "copy_": (multiplies_by_a_buffer, lambda s: s.other.copy_(s.leaves[0])),
    "hook of a node": (trains_two, lambda s: accumulator(s).register_hook(lambda *_: s.log.append("node"))),
    "hook before a node": (trains_two, lambda s: accumulator(s).register_prehook(lambda gs: tuple(map(tripled(s), gs)))),
    "hook of a history": (goes_through_a_history, lambda s: s.other.register_hook(tripled(s))),
    "retain_grad": (goes_through_a_history, retains),
}


def run(make: Callable[[], Setting], event: Callable[[Setting], Any], replay: bool) -> list[Any]:
    fl.manual_seed(5)
    s, x = make(), fl.randn(3)
    call = fl.compile(s.function, mode="replay") if replay else s.function
    found = []
    for k in range(9):
        if k == 5:
            handle = event(s)
        if k == 7 and hasattr(handle, "remove"):
            handle.remove()
        for leaf in s.leaves:
            leaf.grad = None
        y = call(x)
        found.append((y.tolist(), y.requires_grad, [None if t.grad is None else t.grad.tolist() for t in s.leaves], len(s.log)))
    return found


@pytest.mark.filterwarnings("ignore:.*is recorded at every call")
@pytest.mark.parametrize("name", EVENTS)
def test_changes_between_calls(name):
    make, event = EVENTS[name]
    assert run(make, event, True) == run(make, event, False)
