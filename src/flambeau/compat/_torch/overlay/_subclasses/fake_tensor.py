"""Fake tensors. There are none: `is_fake` is False of everything, and a mode that makes them is refused."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


class FakeTensor:
    """A tensor without memory that says another device's name; nothing is one."""


class FakeTensorMode:
    """A mode under which ops make fake tensors; refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("FakeTensorMode: there are no fake tensors here; compute on the meta device for shapes without memory")


def is_fake(x: Any) -> bool:
    """False."""
    return False
