"""`torch.utils.serialization`."""

from __future__ import annotations

from flambeau.compat._torch.overlay.utils.serialization import config

__all__ = ["config"]
