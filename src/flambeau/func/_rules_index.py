"""`vmap`: reading and writing through indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._shapes import broadcast_shapes
from flambeau.func._batched import BatchLevel, composed, has_batch, raw_rule, rule
from flambeau.func._levels import Wrapped, dtype_of, shape_of, wrapped_in


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
    if (found := _places(level, x, _items(index))) is None:
        return NotImplemented
    picked = ops.permute(found.value, found.order)[(found.samples, *found.tensors)]
    return level.wrap(ops.permute(picked, found.shown))


def _adjacent(items: tuple[Any, ...]) -> bool:
    """True where tensors and lists stand side by side, so that their axes stay where they are. Integers take their axes away first."""
    left = [item for item in items if not _is_whole(item)]
    fancy = [i for i, item in enumerate(left) if isinstance(item, (Tensor, list))]
    return not any(isinstance(item, bool) for item in items) and bool(fancy) and fancy == list(range(fancy[0], fancy[-1] + 1))


def _is_whole(item: Any) -> bool:
    """True for an integer, or one in a tensor without axes."""
    if isinstance(item, Tensor):
        return shape_of(item) == () and dtype_of(item) not in (_C.bool, _C.uint8)
    return _is_int(item)


class _Places(NamedTuple):
    """Elements that tensors name, of every sample: value.permute(order)[samples, *tensors].permute(shown)."""

    value: Tensor  # [batch, *], after slices and new axes
    order: tuple[int, ...]  # the batch, axes that tensors index, and the others
    samples: Tensor
    tensors: list[Tensor]
    shown: tuple[int, ...]
    hidden: tuple[int, ...]  # the reverse of shown


def _places(level: BatchLevel, x: Tensor, items: Sequence[Any]) -> _Places | None:
    """Of an index in which tensors differ between samples, or stand where no plain one can; None where it is of another kind."""
    items = [_listed(item) for item in items]
    if not all(item is None or item is Ellipsis or isinstance(item, (slice, Tensor)) or _is_int(item) for item in items):
        return None
    spread: list[Any] = []
    for item in items:
        if isinstance(item, Tensor) and dtype_of(item) in (_C.bool, _C.uint8):
            if level.holds(item):
                return None
            spread.extend(ops.unbind(ops.nonzero(item), 1))
        else:
            spread.append(item)
    given = sum(item is not None and item is not Ellipsis for item in spread)
    missing = [slice(None)] * (len(shape_of(x)) - given)
    if any(item is Ellipsis for item in spread):
        at = next(i for i, item in enumerate(spread) if item is Ellipsis)
        spread[at : at + 1] = missing
    else:
        spread += missing
    if given > len(shape_of(x)):
        return None
    value = level.full(x)[(slice(None), *(slice(None) if isinstance(item, Tensor) else item for item in spread))]
    spread = [item for item in spread if not _is_int(item)]
    fancy = [i for i, item in enumerate(spread) if isinstance(item, Tensor)]
    if not fancy:
        return None
    tensors = [spread[i] for i in fancy]
    rank = max(len(shape_of(t)) for t in tensors)
    others = [i for i in range(len(spread)) if i not in fancy]
    samples = ops.view(ops.arange(level.size), (level.size, *(1,) * rank))
    left = [item for item in spread if not _is_whole(item)]  # among which the axes of the index have their place
    wide = [i for i, item in enumerate(left) if isinstance(item, Tensor)]
    first = wide[0] if wide and wide == list(range(wide[0], wide[-1] + 1)) else 0
    # What is picked is [batch, *index, *others]; the axes of the index stand where the first tensor stood.
    named, behind = list(range(1, rank + 1)), list(range(rank + 1, rank + 1 + len(others)))
    shown = (0, *behind[:first], *named, *behind[first:])
    return _Places(
        value, (0, *(i + 1 for i in fancy), *(i + 1 for i in others)), samples,
        [level.aligned(t, rank) if level.holds(t) else t for t in tensors], shown, tuple(shown.index(i) for i in range(len(shown))),
    )  # fmt: skip


def _listed(item: Any) -> Any:
    """A list as the tensor that it stands for."""
    return _C.tensor_from(item, None) if isinstance(item, list) and not any(wrapped_in(item)) else item


def _put_at(level: BatchLevel, x: Any, items: Sequence[Any], values: Any, accumulate: bool = False) -> bool:
    """Writes to the value of x, which is a batch; False where that is no case of one call for all samples."""
    if len(items) == 1 and isinstance(items[0], Tensor) and dtype_of(items[0]) is _C.bool and level.holds(items[0]) and not accumulate:
        mask: Any = items[0]
        rank = len(shape_of(x))
        if isinstance(values, Tensor) and shape_of(values) or len(shape_of(mask)) > rank:
            return False
        chosen = ops.view(mask._value, (*shape_of(mask._value), *(1,) * (rank - len(shape_of(mask)))))
        new = level.aligned(values, rank) if level.holds(values) else values
        if isinstance(new, Tensor):
            new = new.to(dtype_of(x))
        ops.copy_(x._value, ops.where(chosen, new, x._value) if isinstance(new, Tensor) else ops.masked_fill(x._value, chosen, new))
        return True
    found = _places(level, x, items)
    if found is None:
        return False
    rank = len(found.shown) - 1
    if level.holds(values):
        if len(shape_of(values)) > rank:
            return False
        new = level.aligned(values, rank)
    else:
        new = values if isinstance(values, Tensor) else ops.full((), values, dtype=dtype_of(x))
        if len(shape_of(new)) > rank:
            return False
        new = ops.view(new, (1,) * (rank + 1 - len(shape_of(new))) + shape_of(new)) if rank else ops.view(new, (1,))
    target = ops.permute(found.value, found.order)
    new = ops.permute(new, found.hidden).to(dtype_of(x))
    ops.index_put_(target, [found.samples, *found.tensors], new, accumulate)
    return True


@raw_rule("__setitem__")
def _setitem(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    x, index, value = args
    level.check_written("x[...] = ...", x)
    if not _is_view(index):
        return None if _put_at(level, x, _items(index), value) else NotImplemented
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


def _all_axes(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


@rule("index")
def _index(level: BatchLevel, x: Any, indices: Any) -> Any:
    found = _getitem(level, (x, _all_axes(indices)), {})
    return found if found is NotImplemented else level.full(found)


@rule("index_put")
def _index_put(level: BatchLevel, x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    value = ops.clone(level.full(x))
    held = values._value if level.holds(values) else values
    if isinstance(held, Wrapped):  # of levels further out, whose samples and tangents the result has, too
        value = ops.add(value, ops.new_zeros(held, (), dtype=dtype_of(value)))
    out = level.wrap(value)
    return out._value if _put_at(level, out, _all_axes(indices), values, accumulate) else NotImplemented


@rule("index_select")
def _index_select(level: BatchLevel, x: Any, dim: int, index: Any) -> Any:
    rank = len(shape_of(x))
    if rank == 0 or len(shape_of(index)) > 1:
        return NotImplemented
    at = level.axis("index_select", "dim", dim, rank)
    if not level.holds(index):
        return ops.index_select(x._value, at, index)
    if not shape_of(index):
        index = level.wrap(ops.unsqueeze(index._value, 1))
    value = level.full(x)
    return ops.gather(value, at, _spread_index(level, index, at, shape_of(value)))


def _shifted(level: BatchLevel, index: Tensor, count: int) -> Tensor:
    """[batch, *]: positions on an axis of `count` as positions on that axis of all samples, one after the other."""
    at = level.full(index).to(_C.int64)
    steps = ops.view(ops.arange(level.size) * count, (level.size, *(1,) * len(shape_of(index))))
    # What is no position stays none, so that no sample reads another one's elements.
    return ops.add(at, ops.where(ops.ge(at, count), level.size * count, ops.where(ops.lt(at, 0), 0, steps)))


def _one_axis(level: BatchLevel, x: Tensor, at: int) -> Tensor:
    """[batch, ..., n, ...] -> [batch n, ...], where n is axis number `at`."""
    value = ops.transpose(level.full(x), 1, at)
    shape = shape_of(value)
    return ops.reshape(value, (shape[0] * shape[1], *shape[2:]))


def _own_axes(level: BatchLevel, y: Tensor, at: int) -> Tensor:
    """The way back."""
    shape = shape_of(y)
    return ops.transpose(ops.reshape(y, (level.size, shape[0] // level.size, *shape[1:])), 1, at)


@rule("mix_axis")
def _mix_axis(level: BatchLevel, x: Any, dim: int, index: Any, weight: Any) -> Any:
    at = level.axis("mix_axis", "dim", dim, len(shape_of(x))) % (len(shape_of(x)) + 1)
    if not level.holds(index) and not level.holds(weight):
        return ops.mix_axis(x._value, at, index, weight)
    places, shares = _beside(_shifted(level, index, shape_of(x)[at - 1])), _beside(level.full(weight))
    return _own_axes(level, ops.mix_axis(_one_axis(level, x, at), 0, places, shares), at)


@rule("spread_axis")
def _spread_axis(level: BatchLevel, dy: Any, dim: int, index: Any, weight: Any, size: Sequence[int]) -> Any:
    at = level.axis("spread_axis", "dim", dim, len(shape_of(dy))) % (len(shape_of(dy)) + 1)
    if not level.holds(index) and not level.holds(weight):
        return ops.spread_axis(dy._value, at, index, weight, (level.size, *size))
    places, shares = _beside(_shifted(level, index, size[at - 1])), _beside(level.full(weight))
    value = _one_axis(level, dy, at)
    whole = (level.size * size[at - 1], *shape_of(value)[1:])
    return _own_axes(level, ops.spread_axis(value, 0, places, shares, whole), at)


def _beside(t: Tensor) -> Tensor:
    """[batch, taps, n] -> [taps, batch n]."""
    shape = shape_of(t)
    return ops.reshape(ops.transpose(t, 0, 1), (shape[1], shape[0] * shape[2]))


def _spread_index(level: BatchLevel, index: Any, at: int, shape: tuple[int, ...]) -> Tensor:
    """[batch, k] as the index of every line along an axis."""
    at %= len(shape)
    count = shape_of(index)[0]
    narrow = ops.view(index._value.to(_C.int64), (level.size, *(count if d == at else 1 for d in range(1, len(shape)))))
    return ops.expand(narrow, (level.size, *(count if d == at else shape[d] for d in range(1, len(shape)))))


@rule("gather", "take_along_dim")
def _gather(level: BatchLevel, x: Any, dim: Any = None, index: Any = None, indices: Any = None, sparse_grad: bool = False) -> Any:
    at = index if indices is None else indices
    if dim is None and indices is not None:
        return level.full(ops.gather(ops.reshape(x, (-1,)), 0, ops.reshape(at, (-1,))))
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
    """Slices named by one index for all samples, or by one each: then the axis of all samples is one axis."""
    shown = name + "_" if in_place else name

    def along(level: BatchLevel, x: Any, dim: int, index: Any, **given: Any) -> Any:
        rank = len(shape_of(x))
        if rank == 0 or len(shape_of(index)) != 1:
            return NotImplemented
        at = level.axis(shown, "dim", dim, rank) % (rank + 1)
        own = level.holds(index) or level.holds(given.get("value"))
        if in_place:
            level.check_written(shown, x)
            if own:
                return NotImplemented
        if not own:
            given = {k: level.full(v) if k == "source" else v for k, v in given.items()}
            return getattr(ops, shown)(level.full(x), at, index, **given)
        count = shape_of(x)[at - 1]
        value = _one_axis(level, x, at)
        flat = ops.reshape(_shifted(level, index, count), (-1,))
        if "source" in given:
            if len(shape_of(given["source"])) != rank:
                return NotImplemented
            given["source"] = _one_axis(level, given["source"], at)
        elif level.holds(given["value"]):
            lines = (-1, *(1,) * (rank - 1))  # a line that is named twice is filled once, which the gradient shows
            named = ops.index_fill(ops.zeros((level.size * count,), dtype=_C.bool), 0, flat, True)
            fill = ops.expand(ops.unsqueeze(given["value"]._value.to(dtype_of(x)), 1), (level.size, count))
            return _own_axes(level, ops.where(ops.reshape(named, lines), ops.reshape(fill, lines), value), at)
        return _own_axes(level, getattr(ops, name)(value, 0, flat, **given), at)

    rule(shown)(along)


for _name in ("index_add", "index_copy", "index_fill"):
    for _in_place in (False, True):
        _register_along(_name, _in_place)


@rule("put")
def _put(level: BatchLevel, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    count = math.prod(shape_of(x))
    if math.prod(shape_of(index)) != math.prod(shape_of(source)):
        return NotImplemented  # the op's own error
    at = level.full(index).to(_C.int64)
    at = ops.add(at, ops.where(ops.logical_and(ops.lt(at, 0), ops.ge(at, -count)), count, 0))
    flat = ops.reshape(_shifted(level, level.wrap(at), count), (-1,))
    return ops.put(level.full(x), flat, ops.reshape(level.full(source), (-1,)), accumulate)


@composed("masked_scatter")
def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    shape = shape_of(x)
    if not math.prod(shape_of(source)) or broadcast_shapes(shape, shape_of(mask)) != shape:
        return NotImplemented
    chosen = ops.expand(mask, shape)
    places = ops.reshape(ops.where(chosen, 1, 0), (-1,))
    at = ops.where(ops.reshape(chosen, (-1,)), ops.sub(ops.cumsum(places, 0), 1), 0)
    return ops.where(chosen, ops.reshape(ops.gather(ops.reshape(source, (-1,)), 0, at), shape), x)


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
    if level.holds(boundaries):
        return _searchsorted(level, boundaries, x, **given)
    return ops.bucketize(x._value, boundaries, **given)


@rule("searchsorted", "searchsorted_rows")
def _searchsorted(level: BatchLevel, sorted_sequence: Any, values: Any, **given: Any) -> Any:
    sorter = given.pop("sorter", None)
    single = len(shape_of(sorted_sequence)) == 1
    if sorter is None and not level.holds(sorted_sequence) and single:
        return ops.searchsorted(sorted_sequence, values._value, **given)
    if not isinstance(values, Tensor):
        values = ops.full((), values, dtype=dtype_of(sorted_sequence) if isinstance(values, float) else _C.int64)
    if not single and len(shape_of(sorted_sequence)) != len(shape_of(values)):
        return NotImplemented
    rows = level.full(sorted_sequence)
    if sorter is not None:
        if shape_of(sorter) != shape_of(sorted_sequence):
            return NotImplemented  # a sample's error says it
        rows = ops.gather(rows, -1, level.full(sorter))
    wanted = level.full(values)
    if not single:
        return ops.searchsorted(rows, wanted, **given)
    return ops.view(ops.searchsorted(rows, ops.reshape(wanted, (level.size, -1)), **given), shape_of(wanted))
