"""oneDNN, under its older name. Its switches are kept and change nothing: this build computes with it, or does not."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flambeau import _C
from flambeau._errors import AssertedRuntimeError
from flambeau.backends._switches import Operation, region

enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
conv, matmul, rnn = Operation(), Operation(), Operation()

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


def is_available() -> bool:
    """True if this build multiplies and convolves with oneDNN."""
    return bool(_C.onednn_version())


def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Sets the switches within a scope.

    >>> import flambeau as fl
    >>> with fl.backends.mkldnn.flags(enabled=False):
    ...     fl.backends.mkldnn.enabled
    False
    """
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32, "fp32_precision": fp32_precision}
    return region(globals(), values)


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[bool, bool, bool | None, str]:
    """Sets those switches that are given, and returns what all of them were."""
    table = globals()
    before = (enabled, deterministic, allow_tf32, fp32_precision)
    for name, value in (("enabled", _enabled), ("deterministic", _deterministic), ("allow_tf32", _allow_tf32)):
        if value is not None:
            table[name] = value
    table["fp32_precision"] = _fp32_precision
    return before


class verbose:  # noqa: N801
    """A region in which oneDNN would tell of its calls. It is asked to before a process begins, by `ONEDNN_VERBOSE=1`.

    Raises:
        RuntimeError: it is entered with another level than VERBOSE_OFF.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        if self.level != VERBOSE_OFF:
            raise AssertedRuntimeError(
                f"backends.mkldnn.verbose: level = {self.level}; oneDNN is not told while a process runs, expected VERBOSE_OFF "
                "(start it with ONEDNN_VERBOSE=1 in the environment)"
            )
        return self

    def __exit__(self, *exc: Any) -> None:
        return None
