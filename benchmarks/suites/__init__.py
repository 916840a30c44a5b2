"""What is measured. A suite is a list of cases, written once for both libraries.

`tl` is the library under measurement, flambeau or torch: the same names in both.
"""

from __future__ import annotations

from suites import (
    bandwidth,
    convolutions,
    kernels,
    kinds,
    lopsided,
    memory,
    ops,
    overhead,
    programs,
    training,
)
from suites.case import Case

SUITES: dict[str, list[Case]] = {
    "overhead": overhead.CASES,
    "training": training.CASES,
    "kernels": kernels.CASES,
    "memory": memory.CASES,
    "ops": ops.CASES,
    "kinds": kinds.CASES,
    "programs": programs.CASES,
    "lopsided": lopsided.CASES,
    "convolutions": convolutions.CASES,
    "bandwidth": bandwidth.CASES,
}
DEFAULT = ("overhead", "training", "kernels", "memory")  # of `--suite all`; the others take minutes of their own


def case_named(name: str) -> Case:
    """The case of that name, of whichever suite."""
    return next(case for cases in SUITES.values() for case in cases if case.name == name)
