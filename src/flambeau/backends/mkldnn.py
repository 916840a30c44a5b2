"""oneDNN, under its older name. Its switches are kept and change nothing: this build computes with it, or does not."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flambeau import _C
from flambeau.backends._switches import Operation, region

enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
conv, matmul, rnn = Operation(), Operation(), Operation()


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
