"""Items of plans: what is to be written for an entry, and which boxes of a checkpoint fill one."""

from __future__ import annotations

import math
from typing import Any

from flambeau._C import Size, Tensor, ops
from flambeau.distributed.checkpoint.metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from flambeau.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["create_read_items_for_chunk_list"]


def _chunk(tensor: Tensor) -> ChunkStorageMetadata:
    """All of a tensor as one piece."""
    return ChunkStorageMetadata(Size([0] * tensor.dim()), tensor.shape)


def _create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    if not isinstance(value, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    chunk = _chunk(value)
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), value.shape)
    return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR, tensor_data=data)]


def _create_read_items(fqn: str, md: STORAGE_TYPES, value: Any) -> list[ReadItem]:
    if isinstance(md, BytesStorageMetadata):
        index, none = MetadataIndex(fqn), Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none)]
    if not isinstance(value, Tensor):
        raise ValueError(f"Invalid checkpoint metadata for {fqn}: the checkpoint has a tensor, the state none ({type(value).__name__})")
    return create_read_items_for_chunk_list(fqn, md, [_chunk(value)])


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The boxes that pieces of a checkpoint have in common with pieces that are wanted: a tensor may have been written in other ones.

    Raises:
        ValueError: there are elements that no piece holds.
    """
    found = []
    for number, wanted in enumerate(local_chunks):
        held, whole = 0, math.prod(iter(wanted.sizes))
        for hint, saved in enumerate(checkpoint_md.chunks):
            begin = [max(pair) for pair in zip(wanted.offsets, saved.offsets)]
            end = [min(a + m, b + n) for a, m, b, n in zip(wanted.offsets, wanted.sizes, saved.offsets, saved.sizes)]
            lengths = [b - a for a, b in zip(begin, end)]
            if any(n <= 0 for n in lengths) and whole:
                continue
            held += math.prod(lengths)
            found.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, wanted.offsets, number), Size([a - b for a, b in zip(begin, wanted.offsets)]),
                    MetadataIndex(fqn, saved.offsets, hint), Size([a - b for a, b in zip(begin, saved.offsets)]),
                    Size(lengths),
                )
            )  # fmt: skip
        if held < whole:
            raise ValueError(f"Invalid checkpoint metadata for {fqn}: its pieces hold {held} of {whole} elements")
    return found


def narrow_tensor_by_index(tensor: Tensor, offsets: Any, sizes: Any) -> Tensor:
    """A box of a tensor, as a view."""
    for dim, (begin, count) in enumerate(zip(offsets, sizes)):
        if count < tensor.size(dim):
            tensor = tensor.narrow(dim, begin, count)
    return tensor


def _init_state_dict(state_dict: Any) -> Any:
    """Tensors without data (on `meta`) become tensors with some, in the dicts that hold them."""
    if isinstance(state_dict, Tensor):
        return ops.empty_like(state_dict, device="cpu") if state_dict.is_meta else state_dict
    if isinstance(state_dict, dict):
        for key, value in state_dict.items():
            state_dict[key] = _init_state_dict(value)
        return state_dict
    if type(state_dict) in (list, tuple):
        return type(state_dict)(_init_state_dict(value) for value in state_dict)
    return state_dict
