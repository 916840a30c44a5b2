"""`torch.backends.nnpack`: not a part of this library. Its switch is kept and changes nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flambeau.backends._switches import region

__all__ = ["flags", "is_available", "set_flags"]

_enabled = True


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Sets the switch, and returns what it was."""
    before = globals()["_enabled"]
    globals()["_enabled"] = bool(_enabled)
    return (before,)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """Sets the switch within a scope."""
    return region(globals(), {"_enabled": bool(enabled)})
