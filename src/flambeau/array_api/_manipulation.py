"""Shapes: views and rearrangements with the standard's names and arguments; elements by their positions."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as fl
from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau.array_api._dtypes import together


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Views of all in the shape that they broadcast to."""
    return list(fl.broadcast_tensors(*arrays)) if arrays else []


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """A view of x in a shape that it broadcasts to."""
    return x.expand(tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one behind the other along an axis; flattened ones with None."""
    parts = together(*arrays)
    if axis is None:
        return ops.cat([p.reshape(-1) for p in parts], 0)
    return ops.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return ops.stack(together(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The arrays along an axis: what `stack` puts together."""
    return tuple(ops.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """A view with one more axis, of size 1.

    Raises:
        IndexError: axis outside of -x.ndim - 1 ... x.ndim.
    """
    return ops.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view without these axes.

    Raises:
        ValueError: a size is not 1.
    """
    axes = (axis,) if isinstance(axis, int) else axis
    wrong = [d for d in axes if x.shape[d] != 1]
    if wrong:
        raise ValueError(f"squeeze: axis = {axis}, and x has shape {list(x.shape)}; expected axes of size 1")
    return x.squeeze(axes) if axes else x


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x with the order of its elements turned round along axes; along all by default."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return ops.flip(x, axes)


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """A view with axes at other positions; the others keep their order."""
    return fl.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order."""
    return x.permute(tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged."""
    if x.ndim < 2:
        raise _C.ShapeError(f"matrix_transpose: x has shape {list(x.shape)}; expected at least two axes")
    return x.mT


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """x in another shape; a copy with True, a view or an error with False, and a view where that can be with None.

    Raises:
        ShapeError: another number of elements, or with `copy` False no view is possible.
    """
    if copy is False:
        return x.view(tuple(shape))
    return (x.clone() if copy else x).reshape(tuple(shape))


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements moved along axes; what leaves at the end comes in at the front. Flattened with None."""
    if axis is None:
        return ops.roll(x.reshape(-1), (shift,) if isinstance(shift, int) else shift, (0,)).reshape(x.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    return ops.roll(x, shifts, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along an axis, several times; `repeats` may say how often for each. Flattened with None."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, Tensor):
        repeats = repeats.reshape(-1)
        repeats = repeats.expand((x.shape[axis],)) if repeats.numel() == 1 else repeats
    return ops.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x as often along each axis as `repetitions` say."""
    return ops.tile(x, tuple(repetitions))


def _positions(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Indices that count from the end, from the front."""
    wide = indices.to(_C.int64)
    return ops.where(wide < 0, wide + x.shape[axis], wide)


def _axis(name: str, x: Tensor, axis: int) -> int:
    """An axis of x, counted from the first."""
    if not -x.ndim <= axis < x.ndim:
        raise no_such_axis(name, "axis", axis, x.shape, "x")
    return axis % x.ndim


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along an axis at these positions; `axis` may be left out where there is but one.

    Raises:
        IndexError: x has no such axis.
        ValueError: no axis, and x has several.
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: x has shape {list(x.shape)} and axis = None; expected an axis")
        axis = 0
    d = _axis("take", x, axis)
    flat = ops.index_select(x, d, _positions(x, indices, d).reshape(-1))
    return flat.reshape((*x.shape[:d], *indices.shape, *x.shape[d + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis at positions of their own for each line; the other axes broadcast."""
    d = _axis("take_along_axis", x, axis)
    shape = list(fl.broadcast_shapes((*x.shape[:d], 1, *x.shape[d + 1 :]), (*indices.shape[:d], 1, *indices.shape[d + 1 :])))
    shape[d] = x.shape[d]
    x = x.expand(shape)
    shape[d] = indices.shape[d]
    return ops.gather(x, d, _positions(x, indices, d).expand(shape))
