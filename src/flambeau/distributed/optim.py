"""`torch.distributed.optim`: optimizers whose state is spread over processes, of which there is one."""

from __future__ import annotations

from typing import Any

from flambeau.distributed import _none
from flambeau.optim import Optimizer

__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Refused; nothing is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _none("optim.ZeroRedundancyOptimizer")


class DistributedOptimizer:
    """Refused; nothing is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _none("optim.DistributedOptimizer")
