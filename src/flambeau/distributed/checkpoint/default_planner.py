"""The planners that are used where none is given. Methods that are made to be overridden have PyTorch's names."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

from flambeau import serialization
from flambeau._C import Tensor, ops
from flambeau.distributed.checkpoint._nested_dict import (
    FLATTEN_MAPPING,
    flatten_state_dict,
    set_element,
)
from flambeau.distributed.checkpoint.metadata import (
    STATE_DICT_TYPE,
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from flambeau.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from flambeau.distributed.checkpoint.planner_helpers import (
    _create_read_items,
    _create_write_items,
    _init_state_dict,
    narrow_tensor_by_index,
)

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Writes every entry of a state by its flat name; what is no tensor as an archive of PyTorch's.

    Args:
        flatten_state_dict: False writes the entries of the outermost dict only, which then have to be tensors or whole values.
        flatten_sharded_tensors: has no meaning in one process, as have the others.
    """

    mappings: FLATTEN_MAPPING

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        self.global_plan, metadata = create_default_global_save_plan(all_plans)
        if self.flatten_state_dict:
            paths = {name: path for plan in self.global_plan for name, path in plan.planner_data.items()}
            metadata = dataclasses.replace(metadata, planner_data=paths)
        self.metadata = metadata
        return self.global_plan, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The entry that an index names."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written for an entry."""
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        file = io.BytesIO()
        serialization.save(object, file, format="pt")
        return file


class DefaultLoadPlanner(LoadPlanner):
    """Reads every entry of a state by its flat name: tensors are filled where they lie, other values replaced.

    Args:
        flatten_state_dict: False for what was written so.
        flatten_sharded_tensors: has no meaning in one process.
        allow_partial_load: entries of the state that the checkpoint has not stay as they are; otherwise they are an error.
    """

    original_state_dict: STATE_DICT_TYPE
    mappings: FLATTEN_MAPPING

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict = {}
        self.mappings = {}

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise ValueError(f"{type(self).__name__}.create_local_plan: there is no metadata; expected set_up_planner with some before")
        if self.flatten_state_dict:
            lacking = self.metadata.state_dict_metadata.keys() - self.state_dict.keys()
            if lacking:  # of a checkpoint that an older version wrote?
                flat, paths = flatten_state_dict(self.original_state_dict, before_2_4=True)
                if flat.keys() & lacking:
                    self.state_dict, self.mappings = flat, paths
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes an entry that is no tensor. It is read as `flambeau.load` reads files: no code of the file runs."""
        name = read_item.dest_index.fqn
        try:
            loaded = serialization.load(value)
        except serialization.FileFormatError as error:
            if not (refused := _refused(value)):
                raise
            raise serialization.FileFormatError(
                f"load: the entry {name!r} wants {', '.join(refused[:10])}, which nothing allows; if you trust the checkpoint, "
                "serialization.add_safe_globals does"
            ) from error
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        pass

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor that an index names."""
        found: Tensor = find_state_dict_object(self.state_dict, index)
        return found

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The part of a tensor that an item fills, as a view."""
        return narrow_tensor_by_index(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Makes the state of what the checkpoint says, all of it or the entries below `keys`; it begins with an empty dict."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, ())
        return any(".".join(map(str, path[:n])) in self.keys for n in range(1, len(path) + 1))

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        if state_dict or metadata is None:
            raise ValueError(f"{type(self).__name__}.set_up_planner: expected an empty state, and metadata that says what to fill it with")
        for key, md in metadata.state_dict_metadata.items():
            if self._should_include_key(key, metadata):
                value = ops.empty(md.size, dtype=md.properties.dtype) if isinstance(md, TensorStorageMetadata) else md
                set_element(state_dict, (metadata.planner_data or {}).get(key, (key,)), value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _refused(value: io.BytesIO) -> list[str]:
    """Names in an entry that loading refuses; none of what is no archive."""
    value.seek(0)
    try:
        return serialization.get_unsafe_globals_in_checkpoint(value)
    except serialization.FileFormatError:
        return []


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """The value that an index names in a flat state.

    Raises:
        ValueError: there is none, or it has no such piece.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}' in the state")
    value = state_dict[index.fqn]
    if index.offset is not None and (not isinstance(value, Tensor) or any(index.offset)):
        what = f"a tensor of {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise ValueError(f"FQN: '{index.fqn}' is {what}, and has no piece at {list(index.offset)}")
    return value


def create_default_local_load_plan(state_dict: STATE_DICT_TYPE, metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What fills a flat state; `strict`: all of it has to be in the checkpoint.

    Raises:
        RuntimeError: an entry is not in the checkpoint.
        ValueError: sizes differ, or one of the two has no tensor.
    """
    items = []
    for name, value in state_dict.items():
        md = metadata.state_dict_metadata.get(name)
        if md is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if isinstance(md, TensorStorageMetadata) and isinstance(value, Tensor) and md.size != value.shape:
            raise ValueError(f"Size mismatch between saved {list(md.size)} and current: {list(value.shape)} for {name}")
        items += _create_read_items(name, md, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are: who reads needs no agreement."""
    return all_plans


def create_default_local_save_plan(state_dict: STATE_DICT_TYPE, is_coordinator: bool) -> SavePlan:
    """All entries of a flat state."""
    return SavePlan([item for name, value in state_dict.items() for item in _create_write_items(name, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans, with numbers for the pieces of each tensor, and what they write as metadata.

    Raises:
        ValueError: two plans write one entry.
    """
    entries: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if item.type != WriteItemType.SHARD and name in entries:
                raise ValueError(f"{name!r} is written twice; expected one item, or items of pieces (WriteItemType.SHARD)")
            if item.type == WriteItemType.BYTE_IO:
                entries[name] = BytesStorageMetadata()
            elif data is None:
                raise ValueError(f"{name!r} is planned as a tensor without tensor_data")
            else:
                md = entries.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    item = dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(md.chunks)))
                md.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(entries)
