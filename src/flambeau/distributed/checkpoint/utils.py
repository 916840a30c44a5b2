"""What PyTorch has in `torch.distributed.checkpoint.utils`, and programs import from there."""

from __future__ import annotations

from flambeau.distributed.checkpoint.api import CheckpointException
from flambeau.distributed.checkpoint.default_planner import find_state_dict_object

__all__ = ["CheckpointException", "find_state_dict_object"]
