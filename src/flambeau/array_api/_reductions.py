"""Sums and other statistics, searching, sorting, tests of all elements, with the standard's names, arguments and types."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.array_api._dtypes import isdtype, together

Axis = int | tuple[int, ...] | None


def _axes(x: Tensor, axis: Axis) -> tuple[int, ...]:
    """The axes, wrapped.

    Raises:
        IndexError: an axis that x does not have.
        ValueError: one twice.
    """
    given = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for d in given:
        if not -x.ndim <= d < x.ndim:
            raise IndexError(f"axis = {axis}, but x has shape {list(x.shape)}; expected {-x.ndim} <= axis < {x.ndim}")
    found = tuple(d % x.ndim for d in given)
    if len(set(found)) != len(found):
        raise ValueError(f"axis = {axis} names an axis of x {list(x.shape)} twice; expected distinct axes")
    return found


def _sum_type(x: Tensor, dtype: Any) -> Any:
    """The type of a sum: int64 of integers, uint64 of unsigned ones."""
    if dtype is not None:
        return dtype
    return _C.uint64 if isdtype(x.dtype, "unsigned integer") else _C.int64 if isdtype(x.dtype, ("bool", "integral")) else x.dtype


def _computed_in(kind: Any) -> Any:
    """uint64 is computed as int64, which has the same bits."""
    return _C.int64 if kind == _C.uint64 else kind


def _as_last(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> tuple[Tensor, list[int]]:
    """x with the axes as one last axis, and the shape of a reduction over it."""
    others = [d for d in range(x.ndim) if d not in axes]
    moved = x.permute((*others, *axes)).reshape((*(x.shape[d] for d in others), _count(x, axes)))
    return moved, [1 if d in axes else x.shape[d] for d in range(x.ndim) if keepdims or d not in axes]


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    n = 1
    for d in axes:
        n *= x.shape[d]
    return n


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; integers in int64 or uint64 by default."""
    axes = _axes(x, axis)
    kind = _sum_type(x, dtype)
    return ops.sum(x.to(_computed_in(kind)), axes, keepdims).to(kind) if axes else x.to(kind).clone()


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; integers in int64 or uint64 by default."""
    axes = _axes(x, axis)
    kind = _sum_type(x, dtype)
    moved, shape = _as_last(x.to(_computed_in(kind)), axes, keepdims)
    return ops.prod(moved, -1).to(kind).reshape(shape)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes; NaN of none."""
    axes = _axes(x, axis)
    return ops.mean(x, axes, keepdims) if axes else x.clone()


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes, with a divisor of the number of elements less `correction`."""
    axes = _axes(x, axis)
    d = x - mean(x, axis=axes, keepdims=True)
    return sum(d * d, axis=axes, keepdims=keepdims) / _divisor(x, axes, correction)


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _divisor(x: Tensor, axes: tuple[int, ...], correction: float) -> Tensor:
    left = _count(x, axes) - correction
    return ops.full((), left if left > 0 else 0.0, dtype=x.dtype, device=x.device)


def _extreme(name: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = _axes(x, axis)
    if axes and _count(x, axes) == 0:
        raise ValueError(f"{name}: x has shape {list(x.shape)} and axis = {axis}; expected at least one element")
    if not axes:
        return x.clone()
    return (ops.amax if name == "max" else ops.amin)(x, axes, keepdims)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest over axes; NaN where there is one.

    Raises:
        ValueError: there are no elements.
    """
    return _extreme("max", x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest over axes; NaN where there is one.

    Raises:
        ValueError: there are no elements.
    """
    return _extreme("min", x, axis, keepdims)


def _scan(name: str, x: Tensor, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: x has shape {list(x.shape)} and axis = None; expected an axis")
        axis = 0
    (axis,) = _axes(x, axis)
    kind = _sum_type(x, dtype)
    found = (ops.cumsum if name == "cumulative_sum" else ops.cumprod)(x.to(_computed_in(kind)), axis).to(kind)
    if not include_initial:
        return found
    shape = list(x.shape)
    shape[axis] = 1
    first = ops.full(shape, 0 if name == "cumulative_sum" else 1, dtype=found.dtype, device=x.device)
    return ops.cat([first, found], axis)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running sums along an axis, with a 0 before them if wanted.

    Raises:
        ValueError: no axis, and x has several.
    """
    return _scan("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running products along an axis, with a 1 before them if wanted.

    Raises:
        ValueError: no axis, and x has several.
    """
    return _scan("cumulative_prod", x, axis, dtype, include_initial)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true, or not 0; NaN is true."""
    moved, shape = _as_last(x != 0, _axes(x, axis), keepdims)
    return ops.all(moved, -1).reshape(shape)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true, or not 0; NaN is true."""
    moved, shape = _as_last(x != 0, _axes(x, axis), keepdims)
    return ops.any(moved, -1).reshape(shape)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    if n < 0:
        raise ValueError(f"diff: n = {n}; expected n >= 0")
    parts = [p for p in (prepend, x, append) if p is not None]
    x = ops.cat(together(*parts), axis) if len(parts) > 1 else x
    for _ in range(n):
        size = x.shape[axis]
        if size == 0:
            return x
        late, early = ops.narrow(x, axis, 1, size - 1), ops.narrow(x, axis, 0, size - 1)
        x = (late != early) if x.dtype == _C.bool else late - early
    return x


# ---------------------------------------------------------------------------------------- searching and sorting


def _arg_extreme(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        (axis,) = _axes(x, axis)
    if (x.numel() if axis is None else x.shape[axis]) == 0:
        raise ValueError(f"{name}: x has shape {list(x.shape)} and axis = {axis}; expected at least one element")
    f = ops.argmax if name == "argmax" else ops.argmin
    if axis is None:
        found = f(x.reshape(-1), 0, False)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return f(x, axis, keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first of the largest along an axis, or in the flattened array."""
    return _arg_extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first of the smallest along an axis, or in the flattened array."""
    return _arg_extreme("argmin", x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of elements that are not 0, one array for each axis.

    Raises:
        ValueError: a 0-d tensor.
    """
    if x.ndim == 0:
        raise ValueError("nonzero: x is 0-d; expected at least one axis")
    return tuple(ops.unbind(ops.nonzero(x), 1))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, x2 elsewhere; one of them may be a number."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return ops.where(condition, x1, x2)
    return ops.where(condition, *together(x1, x2))


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where x2 would be put into the ascending x1 [n], before equals with 'left' and behind them with 'right'.

    Raises:
        ValueError: another side.
    """
    x1, x2 = together(x1, x2)
    return ops.searchsorted(x1, x2, side=side, sorter=None if sorter is None else sorter.to(_C.int64))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that the elements of the sorted array have now, along an axis."""
    return ops.argsort(x, axis, descending, stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """x sorted along an axis; NaN is the largest."""
    return ops.sort(x, axis, descending)[0]
