"""`torch.distributed.checkpoint`: those of its functions that one process can answer. Files are written by `flambeau.save`."""

from __future__ import annotations

from flambeau.distributed.checkpoint import state_dict

__all__ = ["state_dict"]
