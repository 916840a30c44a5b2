"""`torch.distributed.optim`: optimizers whose state is spread over processes, of which there is one."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.distributed import _none
from flambeau.optim import Optimizer

__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Refused: there are no process groups whose members could share the state."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _none("optim.ZeroRedundancyOptimizer")


class DistributedOptimizer:
    """Refused: there are no process groups whose members could share the state."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _none("optim.DistributedOptimizer")
