"""Second runs of checkpointed parts, which draw what the first runs drew (`utils.checkpoint`).

Eagerly the default generator is put back to where it was, and forward again. While a call is recorded to be replayed (`_replay.py`) that
will not do: a replay would put it back to where it was in that call. There a second run draws from a generator of its own, which each
replay sets to where the default one will stand:

    recorded:   default   1  2 [3  4] 5      the part draws 3 and 4
                own            [3  4]        its second run does so again
    replayed:   own is set to the default generator's state + 2, then the program draws from both

The n-th second run of a call has the same generator in each call, so that recordings of equal calls are equal.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flambeau import _C, _replay
from flambeau._C import Generator, ops
from flambeau._random import generator_state

_generators: list[Generator] = []  # of second runs, by their number in a call
_one_at_a_time = threading.RLock()  # who draws from these


def _in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


def _set(generator: Generator, seed: int, offset: int) -> None:
    generator.set_state(generator_state(seed, offset))


def _set_unseen(generator: Generator, seed: int, offset: int) -> None:
    """The same on another thread: the recording of this one would take it for something that the call's results depend on."""
    thread = threading.Thread(target=_set, args=(generator, seed, offset))
    thread.start()
    thread.join()


class Place:
    """Where the thread's default generator stands now, for a second run that begins there, too."""

    def __init__(self) -> None:
        self.seed, self.offset = _replay.generator_place()
        self.noted = _replay.noted() if _replay.is_noting() else None

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """What is drawn inside is what was drawn from this place on; the default generator stands at its end where it stood before."""
        if self.noted is not None and self.noted is _replay.noted() and self.seed == self.noted.place[0]:
            with _one_at_a_time, self._noted(self.noted):
                yield
            return
        generator: Generator = _C.current_generator()
        now = generator.get_state()
        try:
            _set(generator, self.seed, self.offset)
            yield
        finally:
            generator.set_state(now)

    @contextlib.contextmanager
    def _noted(self, noted: _replay.Noted) -> Iterator[None]:
        number = noted.second_runs
        noted.second_runs += 1
        while len(_generators) <= number:
            _generators.append(Generator())
        generator = _generators[number]
        _set_unseen(generator, self.seed, self.offset)
        draws = _Draws(generator, _C.draw_hook())
        try:
            with _C.held(_C.set_thread_generator, generator), _C.held(_C.set_draw_hook, draws):
                yield
        finally:  # it may end by an exception, once it has saved enough
            if _C.draws_of(generator) != self.offset + draws.n:
                _C.graph.interrupt("the second run of a checkpointed part draws in a way that is not known")
            if draws.n:
                noted.append(Redrawn(generator, self.offset - noted.place[1]))


class _Draws:
    """The hook of ops that draw: those that are not told of a generator are told of this one."""

    def __init__(self, generator: Generator, outer: Any) -> None:
        self.generator, self.outer = generator, outer
        self.n = 0

    def __call__(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        from flambeau.func._table import bound, call_of

        with _C.held(_C.set_draw_hook, self.outer):
            before = _C.draws_of(self.generator)
            found = bound(name, args, kwargs)
            call: Any = functools.partial(call_of(name), *args, **kwargs)
            if found is not None and name == "dropout":
                call = functools.partial(self._dropout, call, **found[1])
            elif found is not None and found[1].get("generator") is None and any(a.name == "generator" for a in found[0].args):
                first = [v for v in args if v is not None] if "generator" not in kwargs else args
                call = functools.partial(call_of(name), *first, **{**kwargs, "generator": self.generator})
            try:
                return call()
            finally:
                self.n += _C.draws_of(self.generator) - before

    def _dropout(self, call: Any, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """As the op is made of others, which can be told."""
        if not training or p == 0:
            return call()
        mask = ops.dropout_mask(x, p, generator=self.generator)
        return ops.mul_(x, mask) if inplace else ops.mul(x, mask)


class Redrawn:
    """In each replay: where a generator of a second run begins, so many draws ahead of where the default one is at the call's beginning."""

    def __init__(self, generator: Generator, ahead: int) -> None:
        self.generator, self.ahead = generator, ahead

    def ready(self) -> bool:
        return True

    def begin(self) -> bool:
        _one_at_a_time.acquire()
        seed, offset = _replay.generator_place()
        _set(self.generator, seed, offset + self.ahead)
        return True

    def undo(self) -> None:
        with contextlib.suppress(RuntimeError):  # Ctrl-C ended begin() while it waited: another thread's
            _one_at_a_time.release()

    end = undo
