"""`torch.distributed`: not available, as in a PyTorch that was built without it. What needs a group of processes is refused."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

from flambeau._errors import RefusedValueError

__all__ = [
    "Backend",
    "GradBucket",
    "ProcessGroup",
    "ReduceOp",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
]


class ReduceOp(enum.Enum):
    """How values of several processes are put together."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class ProcessGroup:
    """A group of processes; none can be made."""

    def __init__(self, *args: Any) -> NoReturn:
        _none("ProcessGroup")


class Work:
    """A collective under way."""


class GradBucket:
    """Gradients that processes exchange together; annotations of packages name it, none can be made."""

    def __init__(self, *args: Any) -> NoReturn:
        _none("GradBucket")


class Backend(str):
    """The name of what carries messages between processes, in small letters. There is none here; packages have names of them as arguments.

    Raises:
        ValueError: it is no text.

    >>> from flambeau.distributed import Backend
    >>> Backend("GLOO") == Backend.GLOO
    True
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: name is a {type(name).__name__}; expected text")
        return super().__new__(cls, name.lower())


group = type("group", (), {"WORLD": None})
GroupMember = type("GroupMember", (), {"WORLD": None, "NON_GROUP_MEMBER": None})


def _none(name: str) -> NoReturn:
    raise RefusedValueError(
        f"distributed.{name}: Default process group has not been initialized, and there can be none: "
        "there is no data-parallel training here; flambeau.pipeline trains over several processes"
    )


def is_available() -> bool:
    """False: there are no process groups."""
    return False


def is_initialized() -> bool:
    """False: there are no process groups."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False: flambeau's pipelines use MPI by themselves."""
    return False


def is_torchelastic_launched() -> bool:
    """False: torchelastic starts process groups."""
    return False


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there is no data-parallel training; `flambeau.pipeline` trains over several processes."""
    _none("init_process_group")


def destroy_process_group(group: Any = None) -> NoReturn:
    """Refused: there is none."""
    _none("destroy_process_group")


def get_rank(group: Any = None) -> NoReturn:
    """Refused: PyTorch raises, too, before a group was made.

    Raises:
        ValueError: always.
    """
    raise ValueError("distributed.get_rank: the default process group has not been initialized, and can not be here")


def get_world_size(group: Any = None) -> NoReturn:
    """Refused: PyTorch raises, too, before a group was made."""
    raise ValueError("distributed.get_world_size: the default process group has not been initialized, and can not be here")


def _collective(name: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        _none(name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused: there is no process group."
    return refused


for _name in (
    "all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "broadcast",
    "broadcast_object_list", "barrier", "gather", "gather_object", "scatter", "reduce", "send", "recv", "isend", "irecv", "all_to_all",
    "all_to_all_single", "new_group", "get_backend", "monitored_barrier", "scatter_object_list", "get_process_group_ranks",
    "get_global_rank",
):  # fmt: skip
    globals()[_name] = _collective(_name)
