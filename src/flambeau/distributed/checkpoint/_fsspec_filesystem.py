"""Checkpoints on what fsspec knows as file systems: `s3://...`, `memory://...`. It is wanted when one of them is used."""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from flambeau.distributed.checkpoint.filesystem import (
    FileSystemBase,
    FileSystemReader,
    FileSystemWriter,
    Path,
    SerializationFormat,
)

__all__ = ["FsspecReader", "FsspecWriter"]


def _found(path: Path, **kwargs: Any) -> Any:
    """fsspec's file system of a path."""
    return importlib.import_module("fsspec.core").url_to_fs(os.fspath(path), **kwargs)[0]


class FileSystem(FileSystemBase):
    """The one that a path names."""

    def __init__(self) -> None:
        self.fs: Any = None

    @contextlib.contextmanager
    def create_stream(self, path: Path, mode: str) -> Iterator[Any]:
        with self.fs.open(os.fspath(path), mode) as stream:
            yield stream

    def concat_path(self, path: Path, suffix: str) -> Path:
        return os.path.join(path, suffix)

    def init_path(self, path: Path, **kwargs: Any) -> Path:
        self.fs = _found(path, **kwargs)
        return os.fspath(path)

    def rename(self, path: Path, new_path: Path) -> None:
        if self.fs.exists(new_path):
            self.fs.rm(new_path)
        self.fs.rename(path, new_path)

    def mkdir(self, path: Path) -> None:
        self.fs.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        if isinstance(checkpoint_id, pathlib.Path):
            return False
        try:
            _found(checkpoint_id)
        except (ValueError, ImportError):  # no such protocol, or one whose package is not installed
            return False
        return True

    def exists(self, path: Path) -> bool:
        return bool(self.fs.exists(path))

    def rm_file(self, path: Path) -> None:
        self.fs.rm(path)

    def ls(self, path: Path) -> list[str]:
        """Names of what is in a folder."""
        return list(self.fs.ls(path, detail=False))


class FsspecWriter(FileSystemWriter):
    """`FileSystemWriter` on another file system; `kwargs` are fsspec's."""

    def __init__(
        self,
        path: Path,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, overwrite=overwrite, _extensions=_extensions,
            serialization_format=serialization_format,
        )  # fmt: skip
        self.fs: FileSystem = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FsspecReader(FileSystemReader):
    """`FileSystemReader` on another file system; `kwargs` are fsspec's."""

    def __init__(self, path: Path, **kwargs: Any) -> None:
        super().__init__(path)
        self.fs: FileSystem = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)
