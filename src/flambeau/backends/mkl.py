"""`torch.backends.mkl`: not a part of this library."""

from __future__ import annotations

from typing import Any

from flambeau._errors import AssertedRuntimeError

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False."""
    return False


class verbose:  # noqa: N801
    """A region in which MKL would tell of its calls: there are none to tell of. With VERBOSE_OFF it changes nothing.

    Raises:
        RuntimeError: it is entered with VERBOSE_ON.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        if self.enable != VERBOSE_OFF:
            raise AssertedRuntimeError("backends.mkl.verbose: this library does not compute with MKL; expected VERBOSE_OFF")
        return self

    def __exit__(self, *exc: Any) -> None:
        return None
