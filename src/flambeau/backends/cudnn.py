"""cuDNN's switches. There is no cuDNN; results are the same from run to run in any case."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flambeau.backends._switches import Operation, region

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"
conv, rnn = Operation("tf32"), Operation("tf32")


def is_available() -> bool:
    """False: this build has no cuDNN."""
    return False


def version() -> int | None:
    """None: this build has no cuDNN."""
    return None


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Sets the switches within a scope."""
    values = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
        "fp32_precision": fp32_precision,
    }
    return region(globals(), values)
