"""The backwards that run in this thread, the innermost last: what hooks of several tensors ask for."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from flambeau import _C


class Run:
    """One backward: where it begins, what it is to find, and what hooks note of it under keys of their own."""

    def __init__(self, roots: Sequence[Any], inputs: Sequence[Any]) -> None:
        self._roots, self._inputs = roots, inputs
        self.notes: dict[object, Any] = {}  # of hooks
        self.at_end: list[Callable[[], Any]] = []  # called when it ends, with an error, too
        self.over = False
        self._edges: set[tuple[Any, int]] | None = None

    def edges(self) -> set[tuple[Any, int]]:
        """(node, number of its output) of all gradients that this backward computes: those below its roots, and above its inputs where it
        has any. The graph is walked over once.
        """
        if self._edges is None:
            first = {(_C.gradient_node(x), x.output_nr) for x in self._roots if x.requires_grad}
            below = set(first)
            users: dict[Any, list[Any]] = {}
            todo = [node for node, _ in first]
            visited = set(todo)
            while todo:
                node = todo.pop()
                for after, number in node.next_functions:
                    if after is None:
                        continue
                    below.add((after, number))
                    users.setdefault(after, []).append(node)
                    if after not in visited:
                        visited.add(after)
                        todo.append(after)
            self._edges = self._above_inputs(below, users) if self._inputs else below
        return self._edges

    def _above_inputs(self, below: set[tuple[Any, int]], users: dict[Any, list[Any]]) -> set[tuple[Any, int]]:
        wanted = {(_C.gradient_node(x), x.output_nr) for x in self._inputs}
        todo = [node for node, _ in wanted]
        above: set[Any] = set()
        while todo:
            for user in users.get(todo.pop(), ()):
                if user not in above:
                    above.add(user)
                    todo.append(user)
        return {edge for edge in below if edge in wanted or edge[0] in above}


class _Running(threading.local):
    """The backwards of this thread, each held by its own call alone: one that Ctrl-C ended between two steps does not count as running."""

    def __init__(self) -> None:
        self._stack: list[weakref.ref[Run]] = []

    def begin(self, run: Run) -> None:
        self.innermost()
        self._stack.append(weakref.ref(run))

    def innermost(self) -> Run | None:
        while self._stack:
            run = self._stack[-1]()
            if run is not None and not run.over:
                return run
            self._stack.pop()
        return None


_running = _Running()
_asked = False  # until then nobody wants to know, and a backward costs what it costs without


def will_ask() -> None:
    """Hooks that ask for their backward are registered from here on."""
    global _asked
    _asked = True


def is_running() -> bool:
    """Whether a backward runs in this thread that began after `will_ask`."""
    return _running.innermost() is not None


def innermost() -> Run:
    """The backward that calls a hook.

    Raises:
        RuntimeError: a pipeline runs it in two parts, or it began before the first such hook was registered.
    """
    run = _running.innermost()
    if run is None:
        raise RuntimeError(
            "register_multi_grad_hook: this backward is one of a pipeline's in two parts, or began before the hook was registered; "
            "what it computes is not known"
        )
    return run


class _Queue(threading.local):
    """What to call at the end of the backward of a frame, of this thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[FrameType, Callable[[], Any]]] = []


_queued = _Queue()


def queue_callback(call: Callable[[], Any]) -> None:
    """Has `call()` made at the end of the backward that runs in this thread, the innermost; not if that ends by an exception.

    Raises:
        RuntimeError: none runs.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not run_backward.__code__:
        frame = frame.f_back
    if frame is None:
        raise RuntimeError("queue_callback: no backward runs in this thread; call it in a hook, which a backward calls")
    _queued.calls.append((frame, call))


def _take_queued(frame: FrameType) -> Callable[[], Any] | None:
    """The next call of a frame's; calls may queue others."""
    at = next((i for i, (of, _) in enumerate(_queued.calls) if of is frame), None)
    return None if at is None else _queued.calls.pop(at)[1]


def run_backward(
    roots: Any, grads: Any, retain: Any, create: bool, inputs: Any, accumulate: bool, unused: bool, leaf_hooks: bool = True
) -> Any:
    """`_C.run_backward`, of which hooks can ask what it computes, and have something called at its end."""
    try:
        if not _asked:
            out = _C.run_backward(roots, grads, retain, create, inputs, accumulate, unused, leaf_hooks)
        else:
            out = _with_run(roots, grads, retain, create, inputs, accumulate, unused, leaf_hooks)
        while _queued.calls and (call := _take_queued(sys._getframe())) is not None:
            call()
        return out
    finally:
        while _queued.calls and _take_queued(sys._getframe()) is not None:
            pass


def _with_run(roots: Any, grads: Any, retain: Any, create: bool, inputs: Any, accumulate: bool, unused: bool, leaf_hooks: bool) -> Any:
    run = Run(roots, inputs)
    try:
        _running.begin(run)
        return _C.run_backward(roots, grads, retain, create, inputs, accumulate, unused, leaf_hooks)
    finally:
        run.over = True
        for call in run.at_end:
            call()
