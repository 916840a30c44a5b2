"""Batches spread over GPUs, and put together again: without a GPU there is nothing to spread them over."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._C import DeviceError

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _refused(name: str, devices: Any) -> NoReturn:
    raise DeviceError(f"{name}: devices {devices!r}, but this build of flambeau has no CUDA backend; call the module with the whole batch")


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Refused."""
    _refused("scatter", target_gpus)


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Refused."""
    _refused("scatter_kwargs", target_gpus)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> NoReturn:
    """Refused."""
    _refused("gather", target_device)
