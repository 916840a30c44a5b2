"""`torch.utils._device`: regions in which tensors are made on a device; a device itself is such a region (`with torch.device("meta")`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fl


class DeviceContext:
    """`with device`, by an object."""

    def __init__(self, device: Any) -> None:
        self.device = fl.device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.device.__exit__(*exc)


def set_device(device: Any) -> Callable[..., Any]:
    """Makes a decorator: what a function makes is on `device`."""
    region: Any = fl.device(device)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with region:
                return function(*args, **kwargs)

        return inside

    return decorate
