"""What a piece of a program leaves behind, without the help of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable

import flambeau as fl
from flambeau import _C

TIMES = 3


def alive() -> tuple[int, int]:
    """Bytes that tensors hold, and how many tensors, storages and nodes there are."""
    return fl.memory_stats()["allocated_bytes"], _C.live_objects()


def left_behind(action: Callable[[], object], collect: bool = False) -> tuple[int, int]:
    """(bytes, objects) that repeating `action` adds. What its first two runs leave in caches does not count. With `collect`
    what the collector can find is no leak: for cycles that the program itself makes."""
    for _ in range(2):
        action()
    if collect:
        gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(TIMES):
            action()
        if collect:
            gc.collect()
        after = alive()
    finally:
        gc.enable()
    return after[0] - before[0], after[1] - before[1]


def assert_nothing_stays(action: Callable[[], object], collect: bool = False) -> None:
    size, objects = left_behind(action, collect)
    assert (size, objects) == (0, 0), f"{TIMES} times leave {size} bytes and {objects} objects behind"
