"""Which writer or reader a name of a checkpoint means."""

from __future__ import annotations

import os
from typing import Any

from flambeau.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter


def _storage_setup(storage: Any, checkpoint_id: str | os.PathLike[str] | None, reader: bool = False) -> Any:
    if storage is not None:
        if checkpoint_id is not None:
            storage.reset(checkpoint_id)
        return storage
    op, argument = ("load", "storage_reader") if reader else ("save", "storage_writer")
    if not checkpoint_id:
        raise RuntimeError(f"{op}: `checkpoint_id` must be specified if {argument} is None.")
    kind: Any = FileSystemReader if reader else FileSystemWriter
    if not kind.validate_checkpoint_id(checkpoint_id) and (kind := _of_fsspec(checkpoint_id, reader)) is None:
        raise RuntimeError(
            f"{op}: checkpoint_id = {os.fspath(checkpoint_id)!r} is no path of a folder that can be {'read' if reader else 'written'}; "
            f"expected one, or a {argument}"
        )
    storage = kind(checkpoint_id)
    storage.reset(checkpoint_id)
    return storage


def _of_fsspec(checkpoint_id: str | os.PathLike[str], reader: bool) -> Any:
    """For a path such as `s3://...`, where fsspec is installed."""
    kind = FsspecReader if reader else FsspecWriter
    return kind if kind.validate_checkpoint_id(checkpoint_id) else None
