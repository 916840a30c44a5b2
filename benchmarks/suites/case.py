"""One thing to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A statement that is timed, or a program that runs in a process of its own.

    `setup(tl)` gives the names that `statement` uses; the statement is compiled into the timing loop,
    so that both libraries pay the same for the loop. With `fresh`, `setup(tl)` is the whole program and
    what counts is read from outside: "peak" memory or the time of the "import" that came before.

    With `moved_bytes`, what the statement reads and writes, the value is a rate in GB/s, and the target is a
    share of what the case `share_of` reaches in the better of the two libraries.
    """

    name: str
    unit: str  # ns, us, ms, s, MB or GB/s
    setup: Callable[[Any], dict[str, Any]]
    statement: str = ""
    fresh: str = ""  # "", "peak" or "import"
    max_ratio: float | None = None  # target: flambeau / PyTorch at most
    max_value: float | None = None  # target: flambeau at most, in the unit
    moved_bytes: int = 0
    share_of: str = ""
    min_share: float | None = None  # target: flambeau / the best of `share_of` at least
    headline: bool = True  # stands in the README's table too
