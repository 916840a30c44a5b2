"""What the dependency engine costs: a push from C++ and from Python, and what a chain of ops of 100 us loses.

    python benchmarks/engine.py

Medians of several rounds, with the least and the most. The chain runs in C++, so that Python's lock has no part in it;
the loss is its time over that of the ops alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from flambeau import _C, engine

ROUNDS = 15


def from_cpp() -> float:
    """Microseconds a push."""
    n = 20_000
    return float(_C.engine.time_pushes(n)[0]) / n * 1e6


def from_python() -> float:
    """Microseconds a push of a function of Python's with one read and one write, while its thread waits for the GIL."""
    n, x, y = 2_000, engine.Var("x"), engine.Var("y")

    def nothing() -> None:
        pass

    reads, writes = [x], [y]
    begin = time.perf_counter()
    for _ in range(n):
        engine.push(nothing, reads, writes)
    took = time.perf_counter() - begin
    engine.wait_all()
    return took / n * 1e6


def null() -> float:
    """The same where nothing is run."""
    with engine.set_engine("null"):
        return from_python()


def chain() -> float:
    """Percent of what the ops themselves take."""
    _, total, inside = _C.engine.time_pushes(500, 100.0)
    return float(total / inside - 1) * 100


CASES: tuple[tuple[str, str, Callable[[], float], str], ...] = (
    ("push from C++", "us", from_cpp, "<= 1"),
    ("push from Python", "us", from_python, "<= 5"),
    ("push from Python, nothing run", "us", null, ""),
    ("lost by a chain of 100 us ops", "%", chain, "<= 10"),
)


def main() -> None:
    for name, unit, measure, target in CASES:
        measure()
        rounds = sorted(measure() for _ in range(ROUNDS))
        print(f"{name:32} {statistics.median(rounds):6.2f} ({rounds[0]:.2f}..{rounds[-1]:.2f}) {unit:2} {target}")


if __name__ == "__main__":
    main()
