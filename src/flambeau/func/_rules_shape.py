"""`vmap`: views, joining and copies whose arguments count axes or sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.func._batched import BatchLevel, composed, raw_rule, rule
from flambeau.func._levels import Wrapped, dtype_of, held_by, shape_of


def _sizes(size: Any) -> tuple[int, ...]:
    return (int(size),) if hasattr(size, "__index__") else tuple(int(s) for s in size)


def _padded(value: Tensor, rank: int) -> Tensor:
    """[batch, *shape] with axes of size 1 in front of the shape, up to `rank` of them."""
    shape = shape_of(value)
    missing = rank - len(shape) + 1
    return ops.view(value, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else value


@rule("view")
def _view(level: BatchLevel, x: Any, size: Any = None, dtype: Any = None) -> Any:
    if dtype is not None:
        return ops.view(x._value, dtype)
    return ops.view(x._value, (level.size, *_inferred("view", x, _sizes(size))))


@rule("reshape")
def _reshape(level: BatchLevel, x: Any, shape: Any) -> Any:
    return ops.reshape(x._value, (level.size, *_inferred("reshape", x, _sizes(shape))))


def _inferred(op: str, x: Tensor, size: tuple[int, ...]) -> tuple[int, ...]:
    """The size of a sample, with -1 computed; raises what the op itself would say of a sample."""
    shape = shape_of(x)
    count, known = math.prod(shape), math.prod(s for s in size if s != -1)
    wild = [i for i, s in enumerate(size) if s == -1]
    if len(wild) == 1 and known and count % known == 0:
        size = (*size[: wild[0]], count // known, *size[wild[0] + 1 :])
        wild = []
    if wild or any(s < 0 for s in size) or math.prod(size) != count:
        raise _C.ShapeError(f"{op}: a sample has shape {list(shape)}, of {count} elements; expected a size of as many, got {list(size)}")
    return size


@rule("expand", "broadcast_to")
def _expand(level: BatchLevel, x: Any, size: Any) -> Any:
    size = _sizes(size)
    shape = shape_of(x)
    if len(size) < len(shape):
        raise _C.ShapeError(f"expand: size = {list(size)}, but a sample has shape {list(shape)}; expected at least {len(shape)} sizes")
    return ops.expand(_padded(x._value, len(size)), (level.size, *size))


@rule("unsqueeze")
def _unsqueeze(level: BatchLevel, x: Any, dim: int) -> Any:
    return ops.unsqueeze(x._value, level.axis("unsqueeze", "dim", dim, len(shape_of(x)) + 1))


@rule("squeeze")
def _squeeze(level: BatchLevel, x: Any, dim: Any = None) -> Any:
    shape = shape_of(x)
    if dim is None:
        dims = [d + 1 for d, s in enumerate(shape) if s == 1]
    else:
        dims = [level.axis("squeeze", "dim", d, max(len(shape), 1)) for d in _sizes(dim)]
    return ops.squeeze(x._value, tuple(dims)) if dims and shape else ops.view(x._value, shape_of(x._value))


@rule("t")
def _t(level: BatchLevel, x: Any) -> Any:
    rank = len(shape_of(x))
    if rank > 2:
        raise _C.ShapeError(f"t: a sample has shape {list(shape_of(x))}; expected at most 2 axes")
    return ops.transpose(x._value, 1, 2) if rank == 2 else x._value


@rule("permute")
def _permute(level: BatchLevel, x: Any, dims: Any) -> Any:
    rank = len(shape_of(x))
    order = [level.axis("permute", "dims", d, rank) % (rank + 1) for d in _sizes(dims)] if rank else []
    return ops.permute(x._value, (0, *order))


@rule("flatten")
def _flatten(level: BatchLevel, x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    rank = len(shape_of(x))
    if rank == 0:
        return ops.unsqueeze(x._value, 1)
    start, end = level.axis("flatten", "start_dim", start_dim, rank), level.axis("flatten", "end_dim", end_dim, rank)
    return ops.flatten(x._value, start, end)


@rule("repeat")
def _repeat(level: BatchLevel, x: Any, repeats: Any) -> Any:
    times = _sizes(repeats)
    if len(times) < len(shape_of(x)):
        raise _C.ShapeError(f"repeat: repeats = {list(times)}, but a sample has shape {list(shape_of(x))}; expected a number for each axis")
    return ops.repeat(_padded(x._value, len(times)), (1, *times))


@composed("tile")
def _tile(x: Tensor, dims: Any) -> Any:
    times = _sizes(dims)
    return ops.repeat(x, ((1,) * (len(shape_of(x)) - len(times)) + times))


@rule("split")
def _split(level: BatchLevel, x: Any, split_size: Any, dim: int = 0) -> Any:
    return ops.split(x._value, split_size, level.axis("split", "dim", dim, len(shape_of(x))))


@rule("cat")
def _cat(level: BatchLevel, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    rank = max(len(shape_of(x)) for x in tensors)
    if rank != 1:
        tensors = [x for x in tensors if shape_of(x) != (0,)]  # that fits everywhere
    if rank == 0 or any(len(shape_of(x)) != rank for x in tensors):
        return NotImplemented
    return ops.cat([level.full(x) for x in tensors], level.axis("cat", "dim", dim, rank))


@rule("stack")
def _stack(level: BatchLevel, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    return ops.stack([level.full(x) for x in tensors], level.axis("stack", "dim", dim, len(shape_of(tensors[0])) + 1))


def _register_new(name: str) -> None:
    def make(level: BatchLevel, x: Any, size: Any, **options: Any) -> Any:
        return getattr(ops, name)(x._value, (level.size, *_sizes(size)), **options)

    rule(name)(make)


for _name in ("new_empty", "new_zeros", "new_ones", "new_full"):
    _register_new(_name)


@composed("trace")
def _trace(x: Tensor) -> Any:
    return ops.sum(ops.diagonal(x))


def _register_extreme(name: str, reduce: Any, pick: Any) -> None:
    def all_of(level: BatchLevel, x: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
        rank = len(shape_of(x))
        if other is not None:
            return level.each(pick.__name__, (x, other), {})
        if dim is None:
            return reduce(x._value, tuple(range(1, rank + 1))) if rank else x._value
        return getattr(ops, name)(x._value, level.axis(name, "dim", dim, rank), keepdim) if rank else NotImplemented

    rule(name)(all_of)


_register_extreme("max", ops.amax, ops.maximum)
_register_extreme("min", ops.amin, ops.minimum)


def _flat(level: BatchLevel, x: Any) -> Tensor:
    return ops.reshape(x._value, (level.size, math.prod(shape_of(x))))


def _register_middle(name: str) -> None:
    def of_all(rows: Tensor) -> Any:
        count, wide = rows.shape
        if wide == 0:
            return rows.new_full((count,), getattr(ops, name)(rows.new_empty(0)).item())
        values = getattr(ops, name)(rows, 1)[0]
        if not values.is_floating_point():
            return values
        equals = (rows == values.unsqueeze(1)) | (rows.isnan() & values.isnan().unsqueeze(1))
        return ops.amax(ops.where(equals, rows, -math.inf), 1)  # shares the gradient among equals, as without vmap

    def middle(level: BatchLevel, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        rank = len(shape_of(x))
        if dim is None:
            return of_all(_flat(level, x))
        return getattr(ops, name)(x._value, level.axis(name, "dim", dim, rank), keepdim) if rank else NotImplemented

    rule(name)(middle)


def _register_place(name: str) -> None:
    def place(level: BatchLevel, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        rank = len(shape_of(x))
        if dim is not None:
            return getattr(ops, name)(x._value, level.axis(name, "dim", dim, rank), keepdim) if rank else NotImplemented
        found = getattr(ops, name)(_flat(level, x), 1)
        return ops.view(found, (level.size, *(1,) * rank)) if keepdim else found

    rule(name)(place)


for _name in ("median", "nanmedian"):
    _register_middle(_name)
for _name in ("argmax", "argmin"):
    _register_place(_name)


@rule("aminmax")
def _aminmax(level: BatchLevel, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    rank = len(shape_of(x))
    if rank == 0:
        return NotImplemented
    if dim is None:
        return NotImplemented if keepdim else ops.aminmax(_flat(level, x), dim=1)
    return ops.aminmax(x._value, dim=level.axis("aminmax", "dim", dim, rank), keepdim=keepdim)


@rule("flip")
def _flip(level: BatchLevel, x: Any, dims: Any) -> Any:
    rank = len(shape_of(x))
    return ops.flip(x._value, tuple(level.axis("flip", "dims", d, rank) for d in _sizes(dims)))


def _register_flip(name: str, dim: int) -> None:
    composed(name)(lambda x: ops.flip(x, (dim,)) if len(shape_of(x)) > dim else NotImplemented)


_register_flip("fliplr", 1)
_register_flip("flipud", 0)


@composed("diff")
def _diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [t for t in (prepend, x, append) if t is not None]
    rank = len(shape_of(x))
    if n < 0 or not -rank <= dim < rank or any(len(shape_of(t)) != rank for t in parts):
        return NotImplemented
    if len(parts) > 1 and n:
        x = ops.cat(parts, dim)
    less = ops.ne if dtype_of(x) is _C.bool else ops.sub
    whole = shape_of(x)[dim]
    if n >= max(whole, 1):
        return ops.narrow(x, dim, 0, 0)
    for count in range(whole - 1, whole - 1 - n, -1):
        x = less(ops.narrow(x, dim, 1, count), ops.narrow(x, dim, 0, count))
    return x


@rule("repeat_interleave")
def _repeat_interleave(level: BatchLevel, x: Any = None, repeats: Any = None, dim: Any = None, output_size: int | None = None) -> Any:
    if x is None or level.holds(repeats):
        return NotImplemented  # as long as the numbers say
    if dim is None or not shape_of(x):
        return ops.repeat_interleave(_flat(level, x), repeats, 1, output_size=output_size)
    return ops.repeat_interleave(x._value, repeats, level.axis("repeat_interleave", "dim", dim, len(shape_of(x))), output_size=output_size)


@rule("reverse_cumsum")
def _reverse_cumsum(level: BatchLevel, x: Any, dim: int) -> Any:
    return ops.reverse_cumsum(x._value, level.axis("cumsum", "dim", dim, len(shape_of(x)))) if shape_of(x) else x._value


@rule("pixel_shuffle")
def _pixel_shuffle(level: BatchLevel, x: Any, upscale_factor: int) -> Any:
    return ops.pixel_shuffle(x._value, upscale_factor) if len(shape_of(x)) >= 3 else NotImplemented


@rule("pixel_unshuffle")
def _pixel_unshuffle(level: BatchLevel, x: Any, downscale_factor: int) -> Any:
    return ops.pixel_unshuffle(x._value, downscale_factor) if len(shape_of(x)) >= 3 else NotImplemented


def _register_pad(name: str) -> None:
    """Only the last axes change; samples become part of the first one where that is none of them."""

    def pad(level: BatchLevel, x: Any, pad: Any, **given: Any) -> Any:
        shape = shape_of(x)
        pad = _sizes(pad)
        if len(shape) < len(pad) // 2 or not shape:
            return NotImplemented
        if len(shape) == len(pad) // 2:
            return getattr(ops, name)(x._value, pad, **given)
        y = getattr(ops, name)(ops.reshape(x._value, (level.size * shape[0], *shape[1:])), pad, **given)
        return ops.view(y, (level.size, shape[0], *shape_of(y)[1:]))

    rule(name)(pad)


for _name in ("pad", "pad_within"):
    _register_pad(_name)


@rule("as_strided")
def _as_strided(level: BatchLevel, x: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Each sample's memory begins where its part of the batch does."""
    value = x._value
    sizes, strides = _sizes(size), _sizes(stride)
    first = held_by(value).storage_offset()
    start = first if storage_offset is None else storage_offset
    reach = 1 + sum((n - 1) * s for n, s in zip(shape_of(x), value.stride()[1:], strict=True))
    end = start - first + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if math.prod(sizes) and (start < first or end > reach):
        raise RuntimeError(
            f"vmap: as_strided(size = {list(sizes)}, stride = {list(strides)}, storage_offset = {start}) reaches beyond the memory of a "
            f"sample, which has {reach} elements"
        )
    return ops.as_strided(value, (level.size, *sizes), (value.stride()[0], *strides), start)


@raw_rule("narrow")
def _narrow(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    names = ("x", "dim", "start", "length")
    given = {**dict(zip(names, args, strict=False)), **{"x" if k == "input" else k: v for k, v in kwargs.items()}}
    if set(given) != set(names):
        return NotImplemented  # the op's own error
    x, dim, start, length = (given[name] for name in names)
    if isinstance(start, Wrapped):  # a copy, since samples' parts do not lie one after the other
        start = ops.where(ops.lt(start, 0), ops.add(start, shape_of(x)[dim]), start)
        return ops.index_select(x, dim, ops.add(ops.arange(length), start))
    start = int(start.item()) if isinstance(start, Tensor) else start
    return level.wrap(ops.narrow(x._value, level.axis("narrow", "dim", dim, len(shape_of(x))), start, length))


@composed("msort")
def _msort(x: Tensor) -> Any:
    return ops.sort(x, 0)[0]


@rule("roll")
def _roll(level: BatchLevel, x: Any, shifts: Any, dims: Any = None) -> Any:
    rank = len(shape_of(x))
    if dims is None or dims == ():
        if len(_sizes(shifts)) != 1:
            return NotImplemented
        return ops.reshape(ops.roll(_flat(level, x), _sizes(shifts), (1,)), shape_of(x._value))
    return ops.roll(x._value, shifts, tuple(level.axis("roll", "dims", d, rank) for d in _sizes(dims)))


def _register_spread(name: str) -> None:
    """Variance: the old forms say `unbiased`."""

    def spread(
        level: BatchLevel, x: Any, dim: Any = None, unbiased: bool | None = None, correction: float = 1.0, keepdim: bool = False
    ) -> Any:
        rank = len(shape_of(x))
        if rank == 0:
            return NotImplemented
        correction = correction if unbiased is None else float(unbiased)
        return getattr(ops, name)(x._value, level.axes_named(name, "dim", dim, rank), correction=correction, keepdim=keepdim)

    rule(name)(spread)


for _name in ("var", "std", "var_mean", "std_mean"):
    _register_spread(_name)


@rule("sum_to")
def _sum_to(level: BatchLevel, x: Any, shape: Any) -> Any:
    size = _sizes(shape)
    rank = len(shape_of(x))
    return ops.reshape(ops.sum_to(x._value, (level.size, *(1,) * (rank - len(size)), *size)), (level.size, *size))
