"""`vmap`: views, joining and copies whose arguments count axes or sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.func._batched import BatchLevel, composed, rule
from flambeau.func._levels import shape_of


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
def _squeeze(level: BatchLevel, x: Any, dim: Any = ()) -> Any:
    shape = shape_of(x)
    if dim == ():
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
