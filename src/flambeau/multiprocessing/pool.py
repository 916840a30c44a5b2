"""`torch.multiprocessing.pool`: Python's pool; shared tensors travel through it without a copy, as through its queues."""

from __future__ import annotations

from multiprocessing.pool import Pool

__all__ = ["Pool"]
