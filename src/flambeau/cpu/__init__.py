"""The CPU, by name: what programs ask of a device's module."""

from __future__ import annotations

from typing import Any

from flambeau.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """True: there is always a CPU."""
    return True


def device_count() -> int:
    """How many CPU devices there are: 1."""
    return 1


def current_device() -> str:
    """The current device: 'cpu'."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Nothing: an operation has finished when it returns."""
