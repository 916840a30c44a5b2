"""`torch.distributed.tensor`: tensors spread over processes, of which there are none."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor", "init_device_mesh"]


class Placement:
    """How a tensor is spread."""


class Replicate(Placement):
    """Every process has all of it."""


class Shard(Placement):
    """Every process has a slice along `dim`."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Partial(Placement):
    """Every process has a summand."""


class DTensor:
    """The class of tensors that are spread over processes; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: there is no process group whose processes could have parts of a tensor."""
        distribute_tensor()


def distribute_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there is no process group whose processes could have parts of a tensor."""
    raise RuntimeError("distributed.tensor: there is no process group whose processes could have parts of a tensor")
