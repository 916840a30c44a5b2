"""`torch.utils.backcompat`: warnings of what broadcasts since PyTorch 0.2; they are kept for who asks, and none is given, as by PyTorch."""

from __future__ import annotations

__all__ = ["Warning", "broadcast_warning", "keepdim_warning"]


class Warning:
    """A switch."""

    enabled = False


broadcast_warning = Warning()
keepdim_warning = Warning()
