"""Saving of checkpoints, at once and in the background."""

from __future__ import annotations

import inspect
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flambeau.distributed.checkpoint._storage_utils import _storage_setup
from flambeau.distributed.checkpoint.api import step
from flambeau.distributed.checkpoint.default_planner import DefaultSavePlanner
from flambeau.distributed.checkpoint.metadata import STATE_DICT_TYPE, Metadata
from flambeau.distributed.checkpoint.planner import SavePlan, SavePlanner
from flambeau.distributed.checkpoint.staging import AsyncStager, DefaultStager, StagingOptions
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Who writes for `async_save`: a thread. A process of its own is refused."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What `async_save` returns where the stager copies in the background: futures of the copy, and of the checkpoint."""

    staging_completion: Future[None]
    upload_completion: Future[Metadata]


def check_group(op: str, process_group: Any) -> None:
    if process_group is not None:
        raise ValueError(f"{op}: process_group is given, but there are no groups of processes here; leave it out")


def save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The name that `save` had; states of what is in the dict are not asked for."""
    warnings.warn("`save_state_dict` is deprecated. Please use `save` instead.", FutureWarning, stacklevel=2)
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


def save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a checkpoint that `load` reads, here and in PyTorch.

    What has a state (modules, optimizers) is written as that. Dicts within become entries of their own, with their path as the name.

    Args:
        checkpoint_id: the folder.
        storage_writer: who writes; a `FileSystemWriter` by default.
        planner: says what is written; a `DefaultSavePlanner` by default.
        use_collectives: False names the metadata's file after this process, as PyTorch does then.
        no_dist: says nothing new: here is one process.

    Raises:
        CheckpointException: an entry can not be written, or the folder not be used. Nothing of the new checkpoint is left then.
        RuntimeError: there is neither a folder nor a writer.
        ValueError: a `process_group`.

    Example:
        >>> import flambeau as fl, os, tempfile
        >>> from flambeau.distributed import checkpoint
        >>> folder = os.path.join(tempfile.mkdtemp(), "step-1")
        >>> state = {"model": fl.nn.Linear(2, 1), "step": 1}
        >>> metadata = checkpoint.save(state, checkpoint_id=folder)
        >>> list(metadata.state_dict_metadata)
        ['model.weight', 'model.bias', 'step']
        >>> sorted(os.listdir(folder))
        ['.metadata', '__0_0.distcp']
    """
    writer = _storage_setup(storage_writer, checkpoint_id)
    return _save_state_dict(
        _states_of(state_dict), writer, process_group, no_dist=no_dist, planner=planner, use_collectives=use_collectives
    )


def _states_of(state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def async_save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata] | AsyncSaveResponse:
    """Copies a state, and writes the copy in a thread while the program goes on.

    Args:
        async_stager: who copies; the writer where it can, as `FileSystemWriter` can. One that returns a future makes this return an
            `AsyncSaveResponse`.
        others: as of `save`.

    Returns:
        A future of what `save` returns; its `result()` waits, and raises what `save` raises.

    Raises:
        ValueError: `AsyncCheckpointerType.PROCESS`, or a `process_group`.

    Example:
        >>> import flambeau as fl, os, tempfile
        >>> from flambeau.distributed import checkpoint
        >>> x = fl.ones(3)
        >>> writing = checkpoint.async_save({"x": x}, checkpoint_id=os.path.join(tempfile.mkdtemp(), "step-1"))
        >>> _ = x.zero_()
        >>> list(writing.result().state_dict_metadata)
        ['x']
    """
    check_group("async_save", process_group)
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise ValueError(f"async_save: async_checkpointer_type = {async_checkpointer_type}; expected THREAD, which is what writes here")
    stager: Any = async_stager
    if stager is None:
        own = StagingOptions(False, False, False, False)
        stager = storage_writer if isinstance(storage_writer, AsyncStager) else DefaultStager(own)
    staged = stager.stage(_states_of(state_dict))

    def write() -> Metadata:
        state = staged.result() if isinstance(staged, Future) else staged
        return save(
            state, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner, no_dist=no_dist,
            use_collectives=use_collectives,
        )  # fmt: skip

    executor = ThreadPoolExecutor(1, "checkpoint")
    writing = executor.submit(write)
    executor.shutdown(wait=False)
    if not isinstance(staged, Future):
        if stager.should_synchronize_after_execute:
            stager.synchronize_staging()
        return writing
    copied: Future[None] = Future()

    def tell(done: Future[Any]) -> None:
        if (error := done.exception()) is not None:
            copied.set_exception(error)
        else:
            copied.set_result(None)

    staged.add_done_callback(tell)
    return AsyncSaveResponse(copied, writing)


def _save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
    use_collectives: bool = True,
) -> Metadata:
    check_group("save", process_group)
    chosen = DefaultSavePlanner() if planner is None else planner

    def plan() -> tuple[SavePlan, Metadata]:
        if "storage_meta" in inspect.signature(chosen.set_up_planner).parameters:
            chosen.set_up_planner(state_dict=state_dict, storage_meta=storage_writer.storage_meta(), is_coordinator=True)
        else:  # a planner for older versions
            chosen.set_up_planner(state_dict, True)  # type: ignore[arg-type]
        if "kwargs" in inspect.signature(storage_writer.set_up_storage_writer).parameters:
            storage_writer.set_up_storage_writer(True, rank=0, use_collectives=use_collectives)
        else:
            storage_writer.set_up_storage_writer(True)
        local = storage_writer.prepare_local_plan(chosen.create_local_plan())
        plans, metadata = chosen.create_global_plan([local])
        return storage_writer.prepare_global_plan(plans)[0], metadata

    def write() -> Metadata:
        results = storage_writer.write_data(chosen.finish_plan(central), chosen).wait()
        storage_writer.finish(metadata, [results])
        return metadata

    central, metadata = step("plan", plan)
    return step("write", write)
