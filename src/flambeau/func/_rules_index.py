"""`vmap`: reading and writing through indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.func._batched import BatchLevel, has_batch, raw_rule, rule
from flambeau.func._levels import dtype_of, shape_of


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_view(index: Any) -> bool:
    """True where only integers, slices, None and ... stand in an index."""
    return all(item is None or item is Ellipsis or isinstance(item, slice) or _is_int(item) for item in _items(index))


def _is_int(item: Any) -> bool:
    return hasattr(item, "__index__") and not isinstance(item, (bool, Tensor))


@raw_rule("__getitem__")
def _getitem(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    x, index = args
    if level.holds(x) and _is_view(index):
        return level.wrap(x._value[(slice(None), *_items(index))])
    tensors = [item for item in _items(index) if isinstance(item, Tensor)]
    if any(dtype_of(t) in (_C.bool, _C.uint8) and level.holds(t) for t in tensors):
        raise RuntimeError(
            "vmap: a mask that differs between samples picks elements, of which every sample may have another number; use where(mask, x, 0)"
        )
    if level.holds(x) and not has_batch(level, tensors) and _adjacent(_items(index)):
        return level.wrap(x._value[(slice(None), *_items(index))])
    if not tensors or len(tensors) != len(_items(index)) or any(dtype_of(t) in (_C.bool, _C.uint8) for t in tensors):
        return NotImplemented
    # One more index, of the samples, before all others.
    rank = max(len(shape_of(t)) for t in tensors)
    samples = ops.view(ops.arange(level.size), (level.size, *(1,) * rank))
    aligned = [level.aligned(t, rank) if level.holds(t) else t for t in tensors]
    return level.wrap(level.full(x)[(samples, *aligned)])


def _adjacent(items: tuple[Any, ...]) -> bool:
    """True where tensors and lists stand side by side, so that their axes stay where they are."""
    at = [i for i, item in enumerate(items) if isinstance(item, (Tensor, list)) or (_is_int(item) and not isinstance(item, bool))]
    fancy = [i for i in at if not _is_int(items[i])]
    return not any(isinstance(item, bool) for item in items) and bool(fancy) and at == list(range(at[0], at[-1] + 1))


@raw_rule("__setitem__")
def _setitem(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    x, index, value = args
    level.check_written("x[...] = ...", x)
    if not _is_view(index):
        return NotImplemented
    target = x._value[(slice(None), *_items(index))]
    if level.holds(value):
        rank = len(shape_of(target)) - 1
        if len(shape_of(value)) > rank:
            return NotImplemented
        ops.copy_(target, level.aligned(value, rank))
    elif isinstance(value, Tensor):
        ops.copy_(target, value)
    else:
        ops.fill_(target, value)
    return None


@rule("index")
def _index(level: BatchLevel, x: Any, indices: Any) -> Any:
    if not level.holds(x) or has_batch(level, indices) or any(i is None for i in indices):
        return NotImplemented
    return ops.index(x._value, [None, *indices])


@rule("index_select")
def _index_select(level: BatchLevel, x: Any, dim: int, index: Any) -> Any:
    rank = len(shape_of(x))
    if rank == 0 or len(shape_of(index)) > 1:
        return NotImplemented
    at = level.axis("index_select", "dim", dim, rank)
    if not level.holds(index):
        return ops.index_select(x._value, at, index)
    if not shape_of(index):
        return NotImplemented
    value = level.full(x)
    return ops.gather(value, at, _spread_index(level, index, at, shape_of(value)))


@rule("mix_axis")
def _mix_axis(level: BatchLevel, x: Any, dim: int, index: Any, weight: Any) -> Any:
    if level.holds(index) or level.holds(weight):
        return NotImplemented
    return ops.mix_axis(x._value, level.axis("mix_axis", "dim", dim, len(shape_of(x))), index, weight)


@rule("spread_axis")
def _spread_axis(level: BatchLevel, dy: Any, dim: int, index: Any, weight: Any, size: Sequence[int]) -> Any:
    if level.holds(index) or level.holds(weight):
        return NotImplemented
    return ops.spread_axis(dy._value, level.axis("spread_axis", "dim", dim, len(shape_of(dy))), index, weight, (level.size, *size))


def _spread_index(level: BatchLevel, index: Any, at: int, shape: tuple[int, ...]) -> Tensor:
    """[batch, k] as the index of every line along an axis."""
    at %= len(shape)
    count = shape_of(index)[0]
    narrow = ops.view(index._value.to(_C.int64), (level.size, *(count if d == at else 1 for d in range(1, len(shape)))))
    return ops.expand(narrow, (level.size, *(count if d == at else shape[d] for d in range(1, len(shape)))))


@rule("gather", "take_along_dim")
def _gather(level: BatchLevel, x: Any, dim: Any = None, index: Any = None, indices: Any = None, sparse_grad: bool = False) -> Any:
    at = index if indices is None else indices
    rank = len(shape_of(x))
    if rank == 0 or len(shape_of(at)) != rank or dim is None:
        return NotImplemented
    along = level.axis("gather", "dim", dim, rank)
    if indices is None:
        return ops.gather(level.full(x), along, level.full(at))
    return ops.take_along_dim(level.full(x), level.full(at), along)


def _register_scatter(name: str, in_place: bool) -> None:
    shown = name + "_" if in_place else name

    def scatter(level: BatchLevel, x: Any, dim: int, index: Any, **given: Any) -> Any:
        rank = len(shape_of(x))
        if rank == 0 or len(shape_of(index)) != rank:
            return NotImplemented
        if in_place:
            level.check_written(shown, x)
        given = {k: level.full(v) if isinstance(v, Tensor) else v for k, v in given.items()}
        return getattr(ops, shown)(level.full(x), level.axis(shown, "dim", dim, rank), level.full(index), **given)

    rule(shown)(scatter)


for _name in ("scatter", "scatter_add", "scatter_reduce"):
    for _in_place in (False, True):
        _register_scatter(_name, _in_place)


def _register_along(name: str, in_place: bool) -> None:
    """Slices named by one index for all samples."""
    shown = name + "_" if in_place else name

    def along(level: BatchLevel, x: Any, dim: int, index: Any, **given: Any) -> Any:
        rank = len(shape_of(x))
        if rank == 0 or level.holds(index) or len(shape_of(index)) != 1:
            return NotImplemented
        if in_place:
            level.check_written(shown, x)
        if level.holds(given.get("value")):
            return NotImplemented
        if "source" in given:
            given["source"] = level.full(given["source"])
        return getattr(ops, shown)(level.full(x), level.axis(shown, "dim", dim, rank), index, **given)

    rule(shown)(along)


for _name in ("index_add", "index_copy", "index_fill"):
    for _in_place in (False, True):
        _register_along(_name, _in_place)


@rule("take")
def _take(level: BatchLevel, x: Any, index: Any) -> Any:
    count = math.prod(shape_of(x))
    if count == 0:
        return NotImplemented
    flat = ops.reshape(level.full(x), (level.size, count))
    at = ops.reshape(level.full(index), (level.size, -1))
    at = ops.where(ops.lt(at, 0), ops.add(at, count), at)
    return ops.view(ops.gather(flat, 1, at), (level.size, *shape_of(index)))


@rule("bucketize")
def _bucketize(level: BatchLevel, x: Any, boundaries: Any, **given: Any) -> Any:
    return NotImplemented if level.holds(boundaries) else ops.bucketize(x._value, boundaries, **given)


@rule("searchsorted")
def _searchsorted(level: BatchLevel, sorted_sequence: Any, values: Any, **given: Any) -> Any:
    sorter = given.pop("sorter", None)
    if sorter is None and not level.holds(sorted_sequence) and len(shape_of(sorted_sequence)) == 1:
        return ops.searchsorted(sorted_sequence, values._value, **given)
    if not isinstance(values, Tensor) or len(shape_of(sorted_sequence)) != len(shape_of(values)):
        return NotImplemented
    rows = level.full(sorted_sequence)
    if sorter is not None:
        if shape_of(sorter) != shape_of(sorted_sequence):
            return NotImplemented  # a sample's error says it
        rows = ops.gather(rows, -1, level.full(sorter))
    return ops.searchsorted(rows, level.full(values), **given)
