"""Plans: which entries of a state are written, which pieces of a checkpoint are read, and who says so."""

from __future__ import annotations

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flambeau import _C
from flambeau.distributed.checkpoint.metadata import (
    STATE_DICT_TYPE,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What is written: a tensor, a piece of one, or bytes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: a tensor, or bytes."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes an entry that is no tensor has."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """The piece of a tensor that is written, and what the whole is."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: _C.Size


@dataclass(frozen=True)
class WriteItem:
    """One entry to be written."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Bytes of the tensor's elements; None where it is no tensor."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * int(self.tensor_data.properties.dtype.itemsize)


@dataclass(frozen=True)
class ReadItem:
    """One box of elements to be read: out of which piece of the checkpoint, and into which part of the state."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: _C.Size
    storage_index: MetadataIndex
    storage_offsets: _C.Size
    lengths: _C.Size


@dataclass(frozen=True)
class SavePlan:
    """What one process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Says what of a state is written, and how. `DefaultSavePlanner` is the one to derive from; methods are called in this order."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """This state is going to be written."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process writes."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Makes of all processes' plans those that are followed, and the metadata."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan that is followed."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> _C.Tensor | io.BytesIO:
        """What is written for an item; called from several threads, and as often as the storage likes."""


class LoadPlanner(abc.ABC):
    """Says what of a checkpoint is read, and where it goes. `DefaultLoadPlanner` is the one to derive from."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        """This state is going to be filled from a checkpoint of which that is known."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Makes of all processes' plans those that are followed."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan that is followed."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes an entry that is no tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of an entry go, for a storage that wants to write them itself."""
        raise NotImplementedError("LoadPlanner.resolve_bytes: this planner has none; expected one that defines it")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> _C.Tensor:
        """The tensor that is filled for an item."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: _C.Tensor) -> None:
        """What `resolve_tensor` returned has been filled."""
