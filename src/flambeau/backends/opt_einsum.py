"""`torch.backends.opt_einsum`: not a part of this library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["flags", "get_opt_einsum", "is_available", "set_flags"]

enabled = False
strategy = None


def is_available() -> bool:
    """False."""
    return False


def get_opt_einsum() -> None:
    """None: `einsum` finds its own order of products."""


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, str | None]:
    """Has no effect; returns what is so.

    Raises:
        ValueError: the strategy is none of opt_einsum's.
    """
    if _strategy not in (None, "auto", "greedy", "optimal"):
        raise ValueError(f"opt_einsum.set_flags: strategy = {_strategy!r}; expected 'auto', 'greedy' or 'optimal'")
    return enabled, strategy


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """A region with these flags, which have no effect."""
    set_flags(enabled, strategy)
    yield
