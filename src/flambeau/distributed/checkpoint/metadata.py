"""What a checkpoint says of itself: its entries, their sizes, and where the pieces of each tensor lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flambeau import _C
from flambeau._memory_format import contiguous_format, strided

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]

STATE_DICT_TYPE = dict[str, Any]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor that lies in one piece: where it begins, and how large it is, along each axis."""

    offsets: _C.Size
    sizes: _C.Size


class _MEM_FORMAT_ENCODING(Enum):
    """How files name memory formats."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


@dataclass
class TensorProperties:
    """What is written of a tensor beside its elements. Of these its type alone is used when it is read."""

    dtype: Any = field(default_factory=_C.get_default_dtype)
    layout: Any = strided
    requires_grad: bool = False
    memory_format: Any = contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: _C.Tensor) -> TensorProperties:
        """The properties of a tensor, whose elements are written row-major."""
        return TensorProperties(
            dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad, memory_format=contiguous_format,
            pin_memory=tensor.is_pinned(),
        )  # fmt: skip


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint: all of it, and the pieces that were written."""

    properties: TensorProperties
    size: _C.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An entry that is no tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata


@dataclass
class StorageMeta:
    """Which checkpoint it is, and which saving or loading of it."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All that the file `.metadata` of a checkpoint says.

    Args:
        state_dict_metadata: the entries by their flat names.
        planner_data: what the planner wants to know when it loads: the default one's path of each flat name.
        storage_data: where the pieces lie, by `MetadataIndex`.
        version: of the format.
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """Names an entry, or the piece of a tensor that begins at `offset`; `index` is a hint at which of the pieces it is."""

    fqn: str
    offset: _C.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else _C.Size(offset))
        object.__setattr__(self, "index", index)
