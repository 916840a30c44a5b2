"""`torch.utils.data._utils.worker`: what a worker knows of itself, and seeds for NumPy."""

from __future__ import annotations

import numpy as np

from flambeau.utils.data._workers import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """A seed of NumPy's that depends on a seed and a worker's number: four 32-bit words."""
    words = np.random.SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)
    return [int(word) for word in words]
