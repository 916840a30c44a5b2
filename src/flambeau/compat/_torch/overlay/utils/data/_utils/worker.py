"""`torch.utils.data._utils.worker`: seeds for NumPy, and what a worker that is a process of a package's loader says and asks.

Besides what `flambeau.utils.data._workers` has: what a worker knows of itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from flambeau.utils.data._workers import numpy_seed

_generate_state = numpy_seed


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """A worker's word that its dataset has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """The word to a worker that a pass begins anew."""

    seed: int | None = None


class ManagerWatchdog:
    """Whether the process that started this one lives."""

    def __init__(self) -> None:
        self.manager_pid, self.manager_dead = os.getppid(), False

    def is_alive(self) -> bool:
        """False once it has ended."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead
