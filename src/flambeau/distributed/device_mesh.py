"""`torch.distributed.device_mesh`: processes laid out as a grid, of which there are none. The class can be named and asked about."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: there is no process group whose processes could form a grid."""
        init_device_mesh()


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there is no process group whose processes could form a grid.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "distributed.device_mesh: there is no process group whose processes could form a grid; flambeau.pipeline trains over several "
        "processes"
    )
