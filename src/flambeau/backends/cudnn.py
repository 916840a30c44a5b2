"""cuDNN's switches. There is no cuDNN; results are the same from run to run in any case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: this build has no cuDNN."""
    return False


def version() -> int | None:
    """None: this build has no cuDNN."""
    return None


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Sets the switches within a scope."""
    table = globals()
    values = {
        "enabled": enabled,
        "benchmark": benchmark,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    before = {name: table[name] for name in values}
    table.update(values)
    try:
        yield
    finally:
        table.update(before)
