"""Notices a dataset that draws from `random` or NumPy's global generator in worker threads, which share them.

Such draws come in the order in which threads happen to run, so that samples differ from run to run whatever is seeded; it is not
seen in the numbers. Looked at is whether the generators moved during the first fetch of each worker: the program itself then waits
for its first batch as a rule. That costs some 0.1 ms a worker and pass.
"""

from __future__ import annotations

import random
import sys
from typing import Any

_NAMES = "Python's `random`", "NumPy's global generator"


def places() -> tuple[Any, Any]:
    """Where the generators are: of `random`, and of NumPy if somebody has imported that."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None or not hasattr(numpy_random, "get_state"):
        return random.getstate(), None
    _, key, *rest = numpy_random.get_state()
    return random.getstate(), (key.tobytes(), *rest)


def moved(before: tuple[Any, Any]) -> str | None:
    """Which of them are elsewhere now, in words."""
    found = [name for name, old, new in zip(_NAMES, before, places()) if old is not None and old != new]
    return " and ".join(found) or None


def warning(which: str) -> str:
    """What to say of it."""
    return (
        f"DataLoader: the dataset draws from {which}, which worker threads share, so that its samples differ from run to run. Draw from "
        "flambeau's generator (flambeau.rand), whose numbers do not depend on workers here; or give each worker generators of its own: "
        'DataLoader(multiprocessing_context="spawn")'
    )
