"""Loading of checkpoints."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

from flambeau.distributed.checkpoint._storage_utils import _storage_setup
from flambeau.distributed.checkpoint.api import step
from flambeau.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from flambeau.distributed.checkpoint.state_dict_saver import check_group
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The name that `load` had; what is in the dict is not told of its state."""
    warnings.warn("`load_state_dict` is deprecated. Please use `load` instead.", FutureWarning, stacklevel=2)
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills a state from a checkpoint that `save` wrote, here or in PyTorch, there by any number of processes.

    Tensors are filled where they lie, other values are replaced in their dict. What has a state (modules, optimizers) is asked for it,
    and told of it at the end. Nothing of a file is executed: values that are no tensors are read as `flambeau.load` does.

    Args:
        checkpoint_id: the folder.
        storage_reader: who reads; a `FileSystemReader` by default.
        planner: says what is read; a `DefaultLoadPlanner` by default, which wants each entry of the state to be in the checkpoint.
        no_dist: says nothing new: here is one process.

    Raises:
        CheckpointException: there is no checkpoint, an entry is not in it or has another size, or a file is truncated, damaged or hostile.
        RuntimeError: there is neither a folder nor a reader.
        ValueError: a `process_group`.

    Example:
        >>> import flambeau as fl, os, tempfile
        >>> from flambeau.distributed import checkpoint
        >>> folder = os.path.join(tempfile.mkdtemp(), "step-1")
        >>> _ = checkpoint.save({"x": fl.ones(3), "step": 1}, checkpoint_id=folder)
        >>> state = {"x": fl.zeros(3), "step": 0}
        >>> checkpoint.load(state, checkpoint_id=folder)
        >>> state
        {'x': tensor([1., 1., 1.]), 'step': 1}
    """
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    keys = sorted(state_dict)
    states = {key: held.state_dict() if isinstance(held := state_dict[key], Stateful) else held for key in keys}
    _load_state_dict(states, reader, process_group, no_dist=no_dist, planner=planner)
    for key in keys:
        if isinstance(held := state_dict[key], Stateful):
            held.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    check_group("load", process_group)
    chosen = DefaultLoadPlanner() if planner is None else planner

    def plan() -> LoadPlan:
        metadata = _metadata_of(storage_reader)
        chosen.set_up_planner(state_dict, metadata, True)
        if "kwargs" in inspect.signature(storage_reader.set_up_storage_reader).parameters:
            storage_reader.set_up_storage_reader(metadata, True, rank=0, use_collectives=True)
        else:
            storage_reader.set_up_storage_reader(metadata, True)
        local = storage_reader.prepare_local_plan(chosen.create_local_plan())
        return storage_reader.prepare_global_plan(chosen.create_global_plan([local]))[0]

    central = step("plan", plan)
    step("read", lambda: storage_reader.read_data(chosen.finish_plan(central), chosen).wait())


def _metadata_of(reader: StorageReader) -> Metadata:
    """The metadata of all processes, or of this one where each wrote its own."""
    try:
        return reader.read_metadata()
    except FileNotFoundError:
        if "kwargs" not in inspect.signature(reader.read_metadata).parameters:
            raise
        try:
            return reader.read_metadata(rank=0)
        except FileNotFoundError:
            pass
        raise


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """A new state with the entries below these names, or with all of a checkpoint."""
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    state: dict[str, Any] = {}
    _load_state_dict(state, reader, process_group, planner=_EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys))
    return state
