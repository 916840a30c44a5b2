"""The state of an optimizer out of a checkpoint, by the name that it had in PyTorch before `state_dict` was there."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.checkpoint.planner import LoadPlanner
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from flambeau.distributed.checkpoint.storage import StorageReader

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any], optimizer_key: str, storage_reader: StorageReader, planner: LoadPlanner | None = None
) -> dict[str, Any]:
    """What a checkpoint has under one name, as new tensors: in one process all of them are whole.

    Args:
        model_state_dict: says how other processes share tensors in PyTorch, and nothing here.

    Example:
        >>> import flambeau as fl, tempfile
        >>> from flambeau.distributed import checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> _ = checkpoint.save({"optim": {"state": {"weight": {"step": 3}}}, "model": {}}, checkpoint_id=folder)
        >>> checkpoint.load_sharded_optimizer_state_dict({}, "optim", checkpoint.FileSystemReader(folder))
        {'optim': {'state': {'weight': {'step': 3}}}}
    """
    return _load_state_dict_from_keys(optimizer_key, storage_reader=storage_reader)
