"""`torch.distributed.checkpoint` for one process: checkpoints in folders, in the format that PyTorch writes and reads.

    state ── planner ── flat names, plans ── storage ── .metadata, __0_0.distcp        save
    state <─ planner <─ boxes of elements <─ storage <─ of any number of processes     load

`state_dict` has the states of models and optimizers with names for parameters. Files are written to temporary names, and no code of a
file runs: `_metadata_file.py`, `filesystem.py`.
"""

from __future__ import annotations

from flambeau.distributed.checkpoint import format_utils, planner_helpers, staging, state_dict
from flambeau.distributed.checkpoint.api import CheckpointException
from flambeau.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from flambeau.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from flambeau.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from flambeau.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from flambeau.distributed.checkpoint.state_dict_loader import load, load_state_dict
from flambeau.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from flambeau.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader",
    "FileSystemWriter", "LoadPlan", "LoadPlanner", "Metadata", "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter",
    "TensorStorageMetadata", "WriteItem", "async_save", "format_utils", "load", "load_sharded_optimizer_state_dict", "load_state_dict",
    "planner_helpers", "save", "save_state_dict", "staging", "state_dict",
]  # fmt: skip
