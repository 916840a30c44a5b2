"""`torch.nn.attention`: which kernel computes attention. There is one here, which streams over blocks of keys as flash attention does."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from flambeau.nn.functional._attention import here

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

    Where none of those named runs on a CPU, attention in the region raises a RuntimeError.
    """
    named = [backends] if isinstance(backends, SDPBackend) else list(backends)
    runs = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.OVERRIDEABLE}
    before, here.refused = here.refused, () if runs & set(named) else [SDPBackend(kernel).name for kernel in named]
    try:
        yield
    finally:
        here.refused = before
