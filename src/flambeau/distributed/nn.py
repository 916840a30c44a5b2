"""`torch.distributed.nn`: collectives with gradients, which need a group of processes: there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.distributed import _none

__all__ = ["all_gather", "all_reduce", "broadcast", "gather", "reduce", "scatter"]


def all_gather(tensor: Any, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.all_gather")


def all_reduce(tensor: Any, op: Any = None, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.all_reduce")


def broadcast(tensor: Any, src: int, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.broadcast")


def gather(tensor: Any, dst: int = 0, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.gather")


def reduce(tensor: Any, dst: int, op: Any = None, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.reduce")


def scatter(tensors: Any, src: int = 0, group: Any = None) -> NoReturn:
    """Refused."""
    _none("nn.scatter")
