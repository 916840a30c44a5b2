"""`torch.cuda.nvtx`: marks for NVIDIA's profiler. As in a PyTorch without CUDA, the names are there and setting a mark is refused.

>>> from flambeau.cuda import nvtx
>>> nvtx.mark("here")
Traceback (most recent call last):
RuntimeError: cuda.nvtx.mark: there is no GPU here, whose profiler would show the mark; flambeau.profiler.record_function names a region
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _none(name: str) -> NoReturn:
    raise RuntimeError(
        f"cuda.nvtx.{name}: there is no GPU here, whose profiler would show the mark; flambeau.profiler.record_function names a region"
    )


def range_push(msg: str) -> NoReturn:
    """Begins a nested region; refused."""
    _none("range_push")


def range_pop() -> NoReturn:
    """Ends it; refused."""
    _none("range_pop")


def range_start(msg: str) -> NoReturn:
    """Begins a region that others may overlap; refused."""
    _none("range_start")


def range_end(range_id: Any) -> NoReturn:
    """Ends it; refused."""
    _none("range_end")


def mark(msg: str) -> NoReturn:
    """A mark in time; refused."""
    _none("mark")


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001
    """A region, also as a decorator; entering it is refused."""
    _none("range")
    yield
