"""Checkpoints as one file, and back."""

from __future__ import annotations

import os
from typing import Any

from flambeau import serialization
from flambeau.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict
from flambeau.distributed.checkpoint.state_dict_saver import _save_state_dict

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Writes all of a checkpoint as one file, as `torch.save` does."""
    state: dict[str, Any] = {}
    _load_state_dict(state, FileSystemReader(dcp_checkpoint_dir), no_dist=True, planner=_EmptyStateDictLoadPlanner())
    serialization.save(state, torch_save_path, format="pt")


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Writes the state in a file of `torch.save` as a checkpoint. The file is read as `flambeau.load` does: none of its code runs."""
    state = serialization.load(torch_save_path)
    _save_state_dict(state, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)
