"""What fewer programs ask of a GPU: its allocator, pools and sensors. What has an answer without a GPU gives it, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flambeau.cuda._absent import _NoGPU, _none

__all__ = [
    "CUDAPluggableAllocator", "ExternalStream", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "change_current_allocator", "clock_rate", "cudart", "current_blas_handle", "device_memory_used", "get_allocator_backend",
    "get_per_process_memory_fraction", "get_sync_debug_mode", "graph_pool_handle", "host_memory_stats", "initial_seed",
    "is_tf32_supported", "make_graphed_callables", "max_memory_cached", "memory_cached", "memory_snapshot",
    "memory_stats_as_nested_dict", "memory_usage", "power_draw", "reset_accumulated_memory_stats", "reset_max_memory_cached",
    "set_per_process_memory_fraction", "set_stream", "set_sync_debug_mode", "temperature", "use_mem_pool", "utilization",
]  # fmt: skip


class CUDAPluggableAllocator(_NoGPU):
    """An allocator of a GPU's memory; none can be made."""


class ExternalStream(_NoGPU):
    """Another library's queue of a GPU; none can be made."""


class MemPool(_NoGPU):
    """A pool of a GPU's memory; none can be made."""


def _asking(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        _none(name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "flambeau.cuda"
    function.__doc__ = "Refused: there is no GPU."
    return function


caching_allocator_alloc = _asking("caching_allocator_alloc")
caching_allocator_delete = _asking("caching_allocator_delete")
change_current_allocator = _asking("change_current_allocator")
clock_rate = _asking("clock_rate")
cudart = _asking("cudart")
current_blas_handle = _asking("current_blas_handle")
device_memory_used = _asking("device_memory_used")
get_allocator_backend = _asking("get_allocator_backend")
get_per_process_memory_fraction = _asking("get_per_process_memory_fraction")
get_sync_debug_mode = _asking("get_sync_debug_mode")
graph_pool_handle = _asking("graph_pool_handle")
initial_seed = _asking("initial_seed")
make_graphed_callables = _asking("make_graphed_callables")
memory_snapshot = _asking("memory_snapshot")
memory_usage = _asking("memory_usage")
power_draw = _asking("power_draw")
set_per_process_memory_fraction = _asking("set_per_process_memory_fraction")
set_sync_debug_mode = _asking("set_sync_debug_mode")
temperature = _asking("temperature")
use_mem_pool = _asking("use_mem_pool")
utilization = _asking("utilization")


def is_tf32_supported() -> bool:
    """False: there is no GPU."""
    return False


def memory_cached(device: Any = None) -> int:
    """The older name of `memory_reserved`: 0."""
    return 0


def max_memory_cached(device: Any = None) -> int:
    """The older name of `max_memory_reserved`: 0."""
    return 0


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Statistics of a GPU's memory: none."""
    return {}


def host_memory_stats() -> dict[str, Any]:
    """Statistics of the host's memory that a GPU can read: none."""
    return {}


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing is counted without a GPU."""


def reset_max_memory_cached(device: Any = None) -> None:
    """Nothing is counted without a GPU."""


def set_stream(stream: Any) -> None:
    """Makes another stream the current one; only None can be given here."""
    if stream is not None:
        _none("set_stream")
