"""The exception of checkpoints, and the steps in which one is written or read."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["CheckpointException"]

T = TypeVar("T")
WRAPPED_EXCEPTION = tuple[BaseException, traceback.StackSummary]


class CheckpointException(BaseException):
    """Saving or loading failed. As PyTorch's it is no `Exception`: `except Exception` does not catch it.

    Args:
        failures: by the number of each process that failed, its exception and where that was raised. Here is one process, 0.
    """

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """Exceptions and the places where they were raised, by the number of the process."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{self._failures.keys()}\n"]
        for rank, (error, places) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines += traceback.format_list(places) if places is not None else []
            lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)


def step(name: str, do: Callable[[], T]) -> T:
    """Runs one step; what it raises comes as a `CheckpointException`, which knows the first exception."""
    try:
        return do()
    except Exception as error:
        places: Any = traceback.extract_tb(error.__traceback__)
        raise CheckpointException(name, {0: (error, places)}) from error
