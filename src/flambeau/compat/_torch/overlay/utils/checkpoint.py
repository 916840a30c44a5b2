"""`torch.utils.checkpoint`: beside what users call, what reversible networks read of it."""

from __future__ import annotations

from typing import Any

__all__ = ["get_device_states", "set_device_states"]


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices of the arguments other than the CPU, and the states of their generators: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets those states again: there are none.

    Raises:
        ValueError: states of devices that are not here.
    """
    if list(devices) or list(states):
        raise ValueError(f"set_device_states: devices {list(devices)!r}; expected none, there is the CPU alone")
