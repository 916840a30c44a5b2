"""`torch.nn.attention`: which kernel computes attention. There is one here, which streams over blocks of keys as flash attention does."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A region in which kernels of PyTorch's may be used: all stand for the one that is here.

    Raises:
        RuntimeError: none of those named runs on a CPU.
    """
    named = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not set(named) & {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.OVERRIDEABLE}:
        raise RuntimeError(f"sdpa_kernel: {named} need a GPU; expected MATH or FLASH_ATTENTION among them")
    yield
