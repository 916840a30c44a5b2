"""`torch.multiprocessing.queue`: the classes of Python's queues, through which shared tensors travel without a copy."""

from __future__ import annotations

from multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
