"""`torch.accelerator`: there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from flambeau import _C

__all__ = ["current_accelerator", "device_count", "device_index", "is_available"]


def is_available() -> bool:
    """False: this build computes on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """None: there is no accelerator."""
    return None


def empty_cache() -> None:
    """Nothing is cached without an accelerator."""


@contextlib.contextmanager
def device_index(device: int | None, /) -> Iterator[None]:
    """A region with another current device, of which there is none; None changes nothing.

    Raises:
        DeviceError: an index.
    """
    if device is not None:
        _refused("device_index")
    yield


def _refused(name: str) -> NoReturn:
    raise _C.DeviceError(f"accelerator.{name}: this build of flambeau computes on the CPU")


def _asking(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        _refused(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Refused: there is no accelerator."
    return function


current_device_index = _asking("current_device_index")
current_stream = _asking("current_stream")
empty_host_cache = _asking("empty_host_cache")
get_device_capability = _asking("get_device_capability")
get_memory_info = _asking("get_memory_info")
max_memory_allocated = _asking("max_memory_allocated")
max_memory_reserved = _asking("max_memory_reserved")
memory_allocated = _asking("memory_allocated")
memory_reserved = _asking("memory_reserved")
memory_stats = _asking("memory_stats")
reset_accumulated_memory_stats = _asking("reset_accumulated_memory_stats")
reset_peak_memory_stats = _asking("reset_peak_memory_stats")
set_device_index = _asking("set_device_index")
set_stream = _asking("set_stream")
synchronize = _asking("synchronize")
current_device_idx = current_device_index
set_device_idx = set_device_index
