"""`torch._inductor`: PyTorch's generator of code, which is not here; `torch.compile` records calls instead (docs/lazy.md)."""

from __future__ import annotations

from flambeau.compat._torch.overlay._inductor import config

__all__ = ["config"]


def cudagraph_mark_step_begin() -> None:
    """There are no graphs of a GPU, whose memory would be given to the next step."""
