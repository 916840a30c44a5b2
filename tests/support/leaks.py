"""What a piece of a program leaves behind, without the help of the garbage collector."""

from __future__ import annotations

import gc
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import flambeau as fl
from flambeau import _C

TIMES = 3


def alive() -> tuple[int, int]:
    """Bytes that tensors hold, and how many tensors, storages and nodes there are."""
    _C.graph.settle()
    return fl.memory_stats()["allocated_bytes"], _C.live_objects()


@contextmanager
def threads_end() -> Iterator[Callable[[], None]]:
    """Gives a function that waits until the threads started meanwhile are gone. What a thread itself keeps goes
    when the system ends it, which is a little after Python can join it."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    def wait() -> None:
        deadline = time.monotonic() + 60
        while started:
            thread = started.pop()
            thread.join(max(0.0, deadline - time.monotonic()))
            task = pathlib.Path(f"/proc/self/task/{thread.native_id}")
            while task.exists():
                assert time.monotonic() < deadline, f"{thread} does not end"

    with mock.patch.object(threading.Thread, "start", noted):
        yield wait


def left_behind(action: Callable[[], object], collect: bool = False) -> tuple[int, int]:
    """(bytes, objects) that repeating `action` adds. What its first two runs leave in caches does not count. With `collect`
    what the collector can find is no leak: for cycles that the program itself makes."""
    with threads_end() as wait:

        def settled(times: int) -> tuple[int, int]:
            for _ in range(times):
                action()
            if collect:
                gc.collect()
            wait()
            return alive()

        settled(2)
        gc.disable()
        try:
            before, after = settled(0), settled(TIMES)
        finally:
            gc.enable()
    return after[0] - before[0], after[1] - before[1]


def assert_nothing_stays(action: Callable[[], object], collect: bool = False) -> None:
    size, objects = left_behind(action, collect)
    assert (size, objects) == (0, 0), f"{TIMES} times leave {size} bytes and {objects} objects behind"
