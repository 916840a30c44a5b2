"""The GPU, by name: this build has none, and says so."""

from __future__ import annotations

from typing import Any

from flambeau import _C


def is_available() -> bool:
    """False: this build has no CUDA backend."""
    return False


def device_count() -> int:
    """How many GPUs can be used: 0."""
    return 0


def synchronize(device: Any = None) -> None:
    """Waits for the GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _C.DeviceError("cuda.synchronize: this build of flambeau has no CUDA backend")


def manual_seed_all(seed: int) -> None:
    """Nothing to seed without a GPU."""
