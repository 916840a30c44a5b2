"""What Python does beside ops in a call that may be replayed (flambeau.compiler), and has to do again at each replay."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

from flambeau import _C


class Again(Protocol):
    """Something that happens at each replay as it happened in the call that was recorded."""

    def ready(self) -> bool:
        """Whether it would do the same. Changes nothing."""

    def begin(self) -> bool:
        """Does it; false: it would not be the same after all."""

    def undo(self) -> None:
        """Takes back what begin() did, since the replay failed or is not to be."""

    def end(self) -> None:
        """The replay is done."""


def generator_place() -> tuple[int, int]:
    """Seed and draws of the thread's default generator. A recording does not hear of it: whoever asks does the same in each replay."""
    generator = _C.current_generator()
    return generator.initial_seed(), _C.draws_of(generator)


class Noted(list[Again]):
    """What happened in a call."""

    why: str | None = None  # it can not be replayed

    def __init__(self) -> None:
        super().__init__()
        self.place = generator_place()  # at its beginning
        self.second_runs = 0  # of checkpointed parts: `_redraw.py`
        self.inside = 0  # interruptions of the recording within kernels of custom ops, whose own affair they are


class _Here(threading.local):
    noted: Noted | None = None


_here = _Here()


@contextlib.contextmanager
def noting() -> Iterator[Noted]:
    """While a call is recorded to be replayed: the list of what happens in it."""
    before = _here.noted
    _here.noted = Noted()
    try:
        yield _here.noted
    finally:
        _here.noted = before


def noted() -> Noted:
    """What happened so far in the call that is going on, to be added to."""
    return _here.noted if _here.noted is not None else Noted()


def interruptions() -> int:
    """How often the recording of this thread was interrupted, ever."""
    latest = _C.graph.latest_interruption()
    return latest[0] if latest else 0


def is_noting() -> bool:
    """Whether this thread records a call to be replayed."""
    return _here.noted is not None


@contextlib.contextmanager
def checks_later() -> Iterator[None]:
    """In a region: indices that are computed in it are checked when they have been, in each run of what is recorded."""
    with _C.held(_C.graph.check_later, True):
        yield
