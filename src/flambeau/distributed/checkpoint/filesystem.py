"""Checkpoints in folders, in PyTorch's format: a file `.metadata`, and files `__0_0.distcp`, ... with the pieces one behind the other.

Each piece is an archive of its own, as `torch.save` writes it. All files are written to temporary names, and get theirs when all of them
are there, `.metadata` last: a folder without it is no checkpoint. Reading takes the pieces' places from `.metadata` and checks them
against the bytes that exist.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import operator
import os
import pathlib
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any, NoReturn

from flambeau import serialization
from flambeau._C import Tensor
from flambeau._memory_format import strided
from flambeau.distributed.checkpoint._metadata_file import (
    _StorageInfo,
    metadata_bytes,
    read_metadata,
)
from flambeau.distributed.checkpoint.metadata import Metadata, StorageMeta
from flambeau.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from flambeau.distributed.checkpoint.planner_helpers import narrow_tensor_by_index
from flambeau.distributed.checkpoint.staging import BlockingAsyncStager
from flambeau.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from flambeau.futures import Future
from flambeau.serialization import FileFormatError
from flambeau.serialization._torch_write import archive_of

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"
_metadata_fn = ".metadata"
Path = str | os.PathLike[str]


@dataclass
class _StoragePrefix:
    prefix: str


class SerializationFormat(Enum):
    """How pieces are written: as archives of PyTorch's. Safetensors files are refused."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase(ABC):
    """What a checkpoint wants of a file system; a class of another one makes `FileSystemReader` and `FileSystemWriter` use that."""

    @contextlib.contextmanager
    @abstractmethod
    def create_stream(self, path: Path, mode: str) -> Iterator[Any]:
        """A binary file that can be sought in."""
        yield

    @abstractmethod
    def concat_path(self, path: Path, suffix: str) -> Path:
        """The path of a file in a folder."""

    @abstractmethod
    def rename(self, path: Path, new_path: Path) -> None:
        """Gives a file another name, whether there is a file of that name or not."""

    @abstractmethod
    def init_path(self, path: Path) -> Path:
        """A path as the other methods get it."""

    @abstractmethod
    def mkdir(self, path: Path) -> None:
        """Makes a folder, and those that it lies in, if they are not there."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Whether it is a path of this file system."""

    @abstractmethod
    def exists(self, path: Path) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def rm_file(self, path: Path) -> None:
        """Removes a file."""


class FileSystem(FileSystemBase):
    """The machine's own."""

    @contextlib.contextmanager
    def create_stream(self, path: Path, mode: str) -> Iterator[IO[bytes]]:
        with pathlib.Path(path).open(mode) as stream:
            yield stream

    def concat_path(self, path: Path, suffix: str) -> Path:
        return pathlib.Path(path) / suffix

    def init_path(self, path: Path) -> Path:
        return pathlib.Path(path)

    def rename(self, path: Path, new_path: Path) -> None:
        os.replace(path, new_path)

    def mkdir(self, path: Path) -> None:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        if isinstance(checkpoint_id, pathlib.Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(parent.exists() and os.access(str(parent), os.W_OK) for parent in pathlib.Path(checkpoint_id).parents)

    def exists(self, path: Path) -> bool:
        return pathlib.Path(path).exists()

    def rm_file(self, path: Path) -> None:
        pathlib.Path(path).unlink()


def _bytes_of(item: WriteItem) -> int:
    return item.tensor_storage_size() or 0


def _split_by_size_and_type(bins: int, items: list[WriteItem]) -> list[list[WriteItem]]:
    """The items of each of several files: of about one size, the largest tensors first."""
    if bins == 1:
        return [items]
    files: list[list[WriteItem]] = [[] for _ in range(bins)]
    sizes = [0] * bins
    plain = [item for item in items if item.type == WriteItemType.BYTE_IO]
    for number, item in enumerate(plain):
        files[number % bins].append(item)
    for item in sorted((item for item in items if item.type != WriteItemType.BYTE_IO), key=_bytes_of, reverse=True):
        least = min(enumerate(sizes), key=operator.itemgetter(1))[0]
        files[least].append(item)
        sizes[least] += _bytes_of(item)
    return files


class _InFolder:
    """What a writer and a reader know of their folder."""

    fs: FileSystemBase
    path: Path

    def _get_metadata_path(self, rank: int | None = None) -> Path:
        return self.fs.concat_path(self.path, _metadata_fn if rank is None else f"__{rank}{_metadata_fn}")

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemWriter(_InFolder, BlockingAsyncStager, StorageWriter):
    """Writes a checkpoint into a folder.

    Args:
        path: the folder, which is made if it is not there.
        single_file_per_rank: False writes a file for each entry.
        sync_files: files are on disk when `save` returns.
        thread_count: files that are written at a time, each by a thread.
        cache_staged_state_dict: `async_save` copies into the same tensors each time.
        overwrite: False refuses a folder that holds a checkpoint; True replaces it, with a warning, when the new one is complete.
        per_thread_copy_ahead: has no meaning on a CPU.

    Raises:
        ValueError: `_extensions`, or the format of safetensors, which are not here.
    """

    def __init__(
        self,
        path: Path,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)
        if _extensions:
            _refuse_extensions("FileSystemWriter")
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise ValueError(f"FileSystemWriter: serialization_format = {serialization_format}; expected TORCH_SAVE, the one that is here")
        if thread_count < 1:
            raise ValueError(f"FileSystemWriter: thread_count = {thread_count}; expected at least 1")
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.overwrite = overwrite
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True
        self._written: list[tuple[Path, Path]] = []  # temporary names of files, and those that they get

    def reset(self, checkpoint_id: Path | None = None) -> None:
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())
        self._written = []

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def _own(self) -> bool:
        """Whether the metadata is one process' alone, and has its number in the name."""
        return not self.use_collectives and self.rank is not None

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        if self.fs.exists(self._get_metadata_path()):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}: {self.path}")
            warnings.warn(
                f"Detected an existing checkpoint in {self.path}, overwriting since self.overwrite={self.overwrite}. "
                "overwrite=False makes that an error.",
                stacklevel=2,
            )
        return dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_")) if self._own() else plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{number}_")) if plan.storage_data is None else plan
            for number, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        files = _split_by_size_and_type(self.thread_count, plan.items) if self.single_file_per_rank else [[item] for item in plan.items]
        named = [(f"{plan.storage_data.prefix}{number}{DEFAULT_SUFFIX}", items) for number, items in enumerate(files)]
        self._written = [(self.fs.concat_path(self.path, f"{name}.tmp"), self.fs.concat_path(self.path, name)) for name, _ in named]
        try:
            if self.thread_count == 1:
                found = [self._write_file(name, items, planner) for name, items in named]
            else:
                with ThreadPoolExecutor(self.thread_count, "checkpoint") as pool:
                    found = list(pool.map(lambda entry: self._write_file(entry[0], entry[1], planner), named))
        except BaseException:
            self._forget()
            raise
        future: Future[list[WriteResult]] = Future()
        future.set_result([result for results in found for result in results])
        return future

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with self.fs.create_stream(self.fs.concat_path(self.path, f"{name}.tmp"), "wb") as stream:
            for item in sorted(items, key=lambda item: item.type != WriteItemType.BYTE_IO):  # tensors last
                begin = stream.tell()
                _write_item(stream, planner.resolve_data(item), item)
                length = stream.tell() - begin
                results.append(WriteResult(item.index, length, _StorageInfo(name, begin, length)))
            self._sync(stream)
        return results

    def _sync(self, stream: Any) -> None:
        if self.sync_files:
            stream.flush()
            try:
                os.fsync(stream.fileno())
            except (AttributeError, io.UnsupportedOperation):
                os.sync()

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {result.index: result.storage_data for part in results for result in part}
        metadata.storage_meta = self.storage_meta()
        final = self._get_metadata_path(self.rank if self._own() else None)
        temporary = self.fs.concat_path(self.path, f"{os.path.basename(final)}.tmp")
        try:
            raw = metadata_bytes(metadata)
            with self.fs.create_stream(temporary, "wb") as stream:
                stream.write(raw)
                self._sync(stream)
            if self.fs.exists(final):  # whose files are replaced now
                self.fs.rm_file(final)
            for written, name in self._written:
                self.fs.rename(written, name)
            self.fs.rename(temporary, final)
        except BaseException:
            self._written.append((temporary, final))
            self._forget()
            raise
        self._written = []
        if self.sync_files and isinstance(self.fs, FileSystem):
            _sync_folder(self.path)

    def _forget(self) -> None:
        """Removes what was written in vain."""
        for written, _ in self._written:
            with contextlib.suppress(OSError):
                if self.fs.exists(written):
                    self.fs.rm_file(written)
        self._written = []

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)


def _refuse_extensions(who: str) -> NoReturn:
    raise ValueError(f"{who}: _extensions: there is nothing here that transforms streams; leave it out")


def _write_item(stream: Any, data: Any, item: WriteItem) -> None:
    if item.type == WriteItemType.BYTE_IO:
        if not isinstance(data, io.BytesIO):
            raise TypeError(f"save: resolve_data gave a {type(data).__name__} for {item.index.fqn!r}; expected io.BytesIO")
        stream.write(data.getbuffer())
        return
    if not isinstance(data, Tensor) or data.layout is not strided:
        what = f"a tensor in the layout {data.layout}" if isinstance(data, Tensor) else f"a {type(data).__name__}"
        raise TypeError(f"save: {item.index.fqn!r} is {what}; expected a dense tensor")
    plain = data.detach() if type(data) is Tensor else data.detach().as_subclass(Tensor)  # type: ignore[attr-defined]
    archive_of(plain)(stream)


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems can not
        where = os.open(path, os.O_RDONLY)
        try:
            os.fsync(where)
        finally:
            os.close(where)


class FileSystemReader(_InFolder, StorageReader):
    """Reads a checkpoint out of a folder; one or many processes of PyTorch's may have written it.

    Args:
        path: the folder.

    Raises:
        ValueError: `_extension_registry`, which is not here.
    """

    def __init__(self, path: Path, _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            _refuse_extensions("FileSystemReader")
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[Any, Any] = {}
        self.load_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: Path | None = None) -> None:
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the file `.metadata` says.

        Raises:
            FileNotFoundError: there is none: it is no checkpoint, or not a complete one.
            FileFormatError: it is truncated, damaged or hostile.
        """
        path = self._get_metadata_path(kwargs.get("rank"))
        try:
            with self.fs.create_stream(path, "rb") as stream:
                raw = stream.read()
        except FileNotFoundError:
            what = "is no checkpoint, or one whose saving did not end" if self.fs.exists(self.path) else "does not exist"
            raise FileNotFoundError(f"load: {os.fspath(self.path)} {what}: there is no {os.path.basename(path)} in it") from None
        metadata = read_metadata(raw, os.fspath(path))
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not isinstance(metadata.storage_data, dict):
            raise ValueError("load: the metadata does not say where entries lie; expected what read_metadata returned")
        self.storage_data = metadata.storage_data
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        files: dict[str, list[Any]] = {}
        for item in plan.items:
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in files.items():
            path = self.fs.concat_path(self.path, name)
            if isinstance(self.fs, FileSystem) and not os.path.isfile(path):
                raise FileNotFoundError(f"load: {os.fspath(path)} is not there, which holds {items[0].storage_index.fqn!r}")
            with self.fs.create_stream(path, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                for item in items:
                    raw = _piece(stream, size, self.storage_data[item.storage_index], item.storage_index.fqn, path)
                    if item.type == LoadItemType.BYTE_IO:
                        planner.load_bytes(item, raw)
                    else:
                        _fill(raw, item, planner, path)
        future: Future[None] = Future()
        future.set_result(None)
        return future


class _Piece(io.BytesIO):
    """Bytes of a file, whose name is for errors."""

    def __init__(self, raw: bytes, name: str) -> None:
        super().__init__(raw)
        self.name = name


def _piece(stream: Any, size: int, info: _StorageInfo, name: str, path: Path) -> _Piece:
    if info.transform_descriptors:
        ways = ", ".join(info.transform_descriptors)
        raise FileFormatError(f"load: {name!r} was transformed by {ways} when it was saved, which is not here (save it without extensions)")
    if info.offset + info.length > size:
        raise FileFormatError(
            f"load: {os.fspath(path)} has {size} bytes, but {name!r} needs {info.length} from {info.offset} on (truncated?)"
        )
    stream.seek(info.offset)
    raw = stream.read(info.length)
    if len(raw) != info.length:
        raise FileFormatError(f"load: {os.fspath(path)} ended while {name!r} was read")
    return _Piece(raw, f"{os.fspath(path)}, at {info.offset} ({name!r}),")


def _fill(raw: io.BytesIO, item: Any, planner: LoadPlanner, path: Path) -> None:
    name = item.storage_index.fqn
    piece = serialization.load(raw)
    needed = [begin + count for begin, count in zip(item.storage_offsets, item.lengths)]
    if not isinstance(piece, Tensor) or piece.dim() != len(needed) or any(n < end for n, end in zip(piece.shape, needed)):
        what = f"a tensor of {list(piece.shape)}" if isinstance(piece, Tensor) else f"a {type(piece).__name__}"
        raise FileFormatError(f"load: {os.fspath(path)} holds {what} for {name!r}; its metadata wants one of at least {needed}")
    target = planner.resolve_tensor(item).detach()
    part = narrow_tensor_by_index(piece, item.storage_offsets, item.lengths)
    if target.shape != part.shape:
        raise ValueError(f"load: {name!r}: the planner gave a tensor of {list(target.shape)} for one of {list(part.shape)}")
    target.copy_(part)
    planner.commit_tensor(item, target)
