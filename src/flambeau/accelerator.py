"""`torch.accelerator`: there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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


def synchronize(device: Any = None) -> NoReturn:
    """Refused: there is nothing to wait for."""
    _refused("synchronize")


def current_device_index() -> NoReturn:
    """Refused: there is no accelerator."""
    _refused("current_device_index")


def set_device_index(device: Any) -> NoReturn:
    """Refused: there is no accelerator."""
    _refused("set_device_index")


current_device_idx = current_device_index
set_device_idx = set_device_index
