"""`torch.backends.cuda`: which kernels of a GPU compute attention. There is no GPU, and one kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def _fixed(name: str, value: bool) -> Any:
    def answer(*args: Any) -> bool:
        return value

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{value}: there is one kernel of attention, on the CPU."
    return answer


flash_sdp_enabled = _fixed("flash_sdp_enabled", True)
math_sdp_enabled = _fixed("math_sdp_enabled", True)
mem_efficient_sdp_enabled = _fixed("mem_efficient_sdp_enabled", False)
cudnn_sdp_enabled = _fixed("cudnn_sdp_enabled", False)
is_flash_attention_available = _fixed("is_flash_attention_available", False)
can_use_flash_attention = _fixed("can_use_flash_attention", False)
can_use_efficient_attention = _fixed("can_use_efficient_attention", False)


def enable_flash_sdp(enabled: bool) -> None:
    """There is one kernel of attention, whichever is asked for."""


enable_math_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = enable_flash_sdp


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True) -> Iterator[None]:
    """A region without effect: there is one kernel of attention."""
    yield
