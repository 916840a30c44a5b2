"""`torch.distributed._tensor.experimental`."""

from __future__ import annotations

from typing import NoReturn

from flambeau.distributed.tensor import distribute_tensor

__all__ = ["implicit_replication"]


def implicit_replication() -> NoReturn:
    """Refused, as there are no tensors that are spread."""
    distribute_tensor()
