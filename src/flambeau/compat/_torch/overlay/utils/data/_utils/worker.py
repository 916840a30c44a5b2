"""`torch.utils.data._utils.worker`: seeds for NumPy, and what a worker that is a process of a package's loader says and asks.

Besides what `flambeau.utils.data._workers` has: what a worker knows of itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """A seed of NumPy's that depends on a seed and a worker's number: four 32-bit words."""
    words = np.random.SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)
    return [int(word) for word in words]


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
