"""A fast path of PyTorch's attention layers, which is not here: there is one path. The switch is kept."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was told; True at first."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Keeps the choice. There is one path, whichever is asked for."""
    global _enabled
    _enabled = bool(value)
