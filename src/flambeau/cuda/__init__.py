"""The GPU, by name: this build has none, and says so.

As in a PyTorch built for the CPU, what only prepares or asks does nothing or returns zero, so that
programs that guard their use of a GPU run; what needs one raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from flambeau._C import OutOfMemoryError, Tensor
from flambeau._errors import NoCUDAError
from flambeau.cuda import _absent, amp, nvtx
from flambeau.cuda._absent import (
    CUDAGraph,
    Event,
    Stream,
    StreamContext,
    can_device_access_peer,
    current_stream,
    default_generators,
    default_stream,
    device,
    device_of,
    get_gencode_flags,
    graph,
    has_half,
    has_magma,
    ipc_collect,
    is_current_stream_capturing,
    memory_summary,
    stream,
)
from flambeau.cuda._more import *
from flambeau.cuda._more import __all__ as _more

__all__ = [
    "CUDAGraph", "Event", "OutOfMemoryError", "Stream", "StreamContext", "amp", "can_device_access_peer", "current_device",
    "current_stream", "default_generators", "default_stream", "device", "device_count", "device_of", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags", "get_rng_state", "get_rng_state_all",
    "graph", "has_half", "has_magma", "init", "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "memory_summary", "nvtx", "reset_max_memory_allocated",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "stream", "synchronize", *_more,
]  # fmt: skip

globals().update(_absent.types())
_initialized = False  # packages ask for it instead of calling is_initialized()


def _none(name: str) -> NoReturn:
    raise NoCUDAError(f"cuda.{name}")


def is_available() -> bool:
    """False: this build has no CUDA backend.

    Example:
        >>> import flambeau as fl
        >>> fl.cuda.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """False: there is nothing to initialise."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False without a GPU."""
    return False


def device_count() -> int:
    """How many GPUs can be used: 0."""
    return 0


def get_arch_list() -> list[str]:
    """The architectures that this build was compiled for: none."""
    return []


def init() -> None:
    """Starts the GPU's runtime.

    Raises:
        DeviceError: there is none.
    """
    _none("init")


def current_device() -> int:
    """The number of the current GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("current_device")


def set_device(device: Any) -> None:
    """Chooses the current GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("set_device")


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("get_device_name")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("get_device_capability")


def get_device_properties(device: Any = None) -> Any:
    """What is known about a GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("get_device_properties")


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total memory of a GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("mem_get_info")


def synchronize(device: Any = None) -> None:
    """Waits for the GPU.

    Raises:
        DeviceError: there is none.
    """
    _none("synchronize")


# ---- random numbers


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed without a GPU."""


def seed() -> None:
    """Nothing to seed without a GPU."""


def seed_all() -> None:
    """Nothing to seed without a GPU."""


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator.

    Raises:
        DeviceError: there is none.
    """
    _none("get_rng_state")


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Restores the state of a GPU's generator.

    Raises:
        DeviceError: there is none.
    """
    _none("set_rng_state")


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all GPUs: none."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restores the generators of all GPUs.

    Raises:
        DeviceError: a state is given, but there is no GPU.
    """
    if list(new_states):
        _none("set_rng_state_all")


# ---- memory


def empty_cache() -> None:
    """Nothing is cached without a GPU."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing is counted without a GPU."""


def reset_max_memory_allocated(device: Any = None) -> None:
    """Nothing is counted without a GPU."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of a GPU's memory in use: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of a GPU's memory in use: 0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes of a GPU's memory held: 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of a GPU's memory held: 0."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Statistics of a GPU's memory: none."""
    return {}
