"""`torch.cuda.profiler`: starts and ends NVIDIA's profiler. As in a PyTorch without CUDA, the names are there and a start is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

from flambeau._errors import NoCUDAError

__all__ = ["profile", "start", "stop"]


def start() -> NoReturn:
    """Starts the profiler; refused."""
    raise NoCUDAError("cuda.profiler.start")


def stop() -> NoReturn:
    """Ends it; refused."""
    raise NoCUDAError("cuda.profiler.stop")


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A region that is profiled; entering it is refused."""
    start()
    yield
