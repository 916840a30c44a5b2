"""Fake tensors. There are none: `is_fake` is False of everything, and a mode that makes them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "unset_fake_temporarily"]


class FakeTensor:
    """A tensor without memory that says another device's name; nothing is one."""


class FakeTensorMode:
    """Refused: ops make no fake tensors; the meta device has shapes without memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("FakeTensorMode: there are no fake tensors here; compute on the meta device for shapes without memory")


def is_fake(x: Any) -> bool:
    """False."""
    return False


@contextmanager
def unset_fake_temporarily() -> Iterator[None]:
    """Without the mode that makes fake tensors, which is never on: gives None, as PyTorch does where it is off."""
    yield None
