"""The dependency engine: functions that say what they read and write, run by threads in an order that respects it.

Example:
    >>> from flambeau import engine
    >>> x, y, values = engine.Var("x"), engine.Var("y"), {}
    >>> engine.push(lambda: values.update(x=20), writes=[x])
    >>> engine.push(lambda: values.update(y=values["x"] + 1), reads=[x], writes=[y])
    >>> engine.wait_for_var(y)
    >>> values["y"], y.version
    (21, 1)

A `Var` stands for whatever functions share: a tensor, a generator, a file. Two functions conflict if they share a Var and
one of them writes it; these run one after another, in the order of their pushes. docs/engine.md has the rules.
"""

from __future__ import annotations

import atexit
import itertools
import operator

from flambeau import _C
from flambeau.autograd.modes import inference_mode

Var = _C.engine.Var
OnComplete = _C.engine.OnComplete
EngineError = _C.engine.EngineError
EngineErrorGroup = _C.engine.EngineErrorGroup
bulk = _C.engine.bulk
push = _C.engine.push
push_async = _C.engine.push_async
wait_for_var = _C.engine.wait_for_var
wait_to_write = _C.engine.wait_to_write
wait_all = _C.engine.wait_all
get_engine = _C.engine.get_engine
get_workers = _C.engine.get_workers
set_workers = _C.engine.set_workers
stats = _C.engine.stats
pending = _C.engine.pending
random_var = _C.engine.random_var

__all__ = [
    "EngineError",
    "EngineErrorGroup",
    "OnComplete",
    "TempSpace",
    "Var",
    "bulk",
    "get_engine",
    "get_workers",
    "pending",
    "push",
    "push_async",
    "random_var",
    "set_engine",
    "set_watchdog",
    "set_workers",
    "stats",
    "temp_space",
    "wait_all",
    "wait_for_var",
    "wait_to_write",
]

_watched = False
_end_seconds = 10.0


def set_watchdog(seconds: float) -> None:
    """Prints what is pending, and what that waits for, when no op has ended for so long. 0: never.

    Raises:
        ValueError: seconds below 0, or beyond 1e6.
    """
    global _watched
    _C.engine.set_watchdog(seconds)
    _watched = seconds > 0


def _end() -> None:
    # The end waits for ops; without a word a program that is over would hang for no reason that anybody sees.
    if not _watched and _C.engine.stats()["pending"]:
        _C.engine.set_watchdog(_end_seconds)
    _C.engine.shut_down()


# Threads of the engine's may not outlive the interpreter.
atexit.register(_end)


class set_engine:
    """Switches to "threaded", "naive" (a push runs its function, and raises its error) or "null" (nothing is run).

    As a context manager it switches back. What is pending ends before.
    """

    def __init__(self, name: str) -> None:
        before = get_engine()
        _C.engine.switch_engine(name)
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _C.engine.switch_engine(self._before)


class _Copy:
    """Memory that one function at a time may use."""

    def __init__(self) -> None:
        self.var = Var("temp_space")
        self.memory: _C.Tensor | None = None


class TempSpace:
    """Scratch memory for one function: it lists `var` in its writes, and calls `tensor()` while it runs."""

    def __init__(self, copy: _Copy, size_bytes: int) -> None:
        self._copy = copy
        self.size_bytes = size_bytes
        self.var = copy.var

    def tensor(self) -> _C.Tensor:
        """The memory, uint8 [size_bytes]; what it holds is undefined."""
        memory = self._copy.memory
        if memory is None or memory.numel() < self.size_bytes:
            self._copy.memory = None  # given back before more is taken
            with inference_mode(False):  # others use it after this function
                self._copy.memory = memory = _C.ops.empty(self.size_bytes, dtype=_C.uint8, device="cpu")
        return memory[: self.size_bytes]


_copies = itertools.cycle([_Copy() for _ in range(4)])


def temp_space(size_bytes: int) -> TempSpace:
    """Scratch memory. There are four copies, which take turns: so many functions that use some run at once.

    Example:
        >>> from flambeau import engine
        >>> space = engine.temp_space(1024)
        >>> engine.push(lambda: space.tensor().zero_(), writes=[space.var])
        >>> engine.wait_for_var(space.var)
    """
    size = operator.index(size_bytes) if hasattr(size_bytes, "__index__") else -1
    if not 0 <= size < 2**63:
        raise ValueError(f"temp_space: size_bytes = {size_bytes!r}; expected a whole number from 0 to 2^63 - 1")
    return TempSpace(next(_copies), size)
