"""Reductions of segments: runs of neighbouring slices along an axis."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors

_SCATTER = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod", "amax": "amax", "amin": "amin"}
_OF_NONE = {"sum": 0.0, "mean": float("nan"), "amax": float("-inf"), "amin": float("inf"), "prod": 1.0}


@wants_tensors
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Each segment's sum, mean, max, min or prod (`amax` and `amin` are other names of two).

    Args:
        lengths: how many slices each segment has; they add up to the size of the axis.
        offsets: where each segment begins, and where the last ends; in place of lengths.
        indices: not there; expected None.
        unsafe: lengths may add up to less than the axis has, whose rest belongs to no segment.
        initial: what the reduction begins with, and the result of empty segments; by default these are 0, NaN, -inf, inf and 1.

    Shape:
        data [n, ...], lengths [s] or offsets [s + 1] -> [s, ...], with `axis` in the place of the first axis; or
        data [*rows, n, ...], lengths [*rows, s] or offsets [*rows, s + 1] -> [*rows, s, ...], with `axis` that of n

    Raises:
        ValueError: an unknown reduction, both or none of lengths and offsets, or lengths that do not add up.

    Example:
        >>> import flambeau as fl
        >>> fl.segment_reduce(fl.tensor([1.0, 2.0, 3.0]), "sum", lengths=fl.tensor([1, 0, 2]))
        tensor([1., 0., 5.])
    """
    if reduce not in _SCATTER:
        raise _C.ArgumentError(f"segment_reduce: reduce = {reduce!r}; expected one of {', '.join(map(repr, _SCATTER))}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise _C.ArgumentError("segment_reduce: expected either lengths or offsets, and no indices")
    if not -data.ndim <= axis < data.ndim:
        given = f"axis = {axis}, but data has shape {list(data.shape)}"
        raise IndexError(f"segment_reduce: {given}; expected {-data.ndim} <= axis < {data.ndim}")
    axis %= data.ndim
    counts = _counts(lengths, offsets, data, axis, unsafe)
    segments, rows = counts.shape[-1], counts.shape[:-1]  # each of the rows has segments of its own
    x = data if rows else data.movedim(axis, 0)
    first = len(rows)  # the axis that is reduced, of x
    if unsafe and counts.numel() and (covered := int(counts.sum(-1).max().item())) < x.shape[first]:
        x = ops.narrow(x, first, 0, covered)
    at = ops.repeat_interleave(ops.arange(segments, device=data.device).repeat(*rows, 1).reshape(-1), counts.reshape(-1))
    trailing = (1,) * (x.ndim - first - 1)
    where = at.reshape((*rows, x.shape[first], *trailing)).expand(x.shape)
    shape = (*rows, segments, *x.shape[first + 1 :])
    back = axis if not rows else first
    if reduce == "mean" and initial is not None:  # it counts as a part of the sum, not of the number
        begin = ops.full(shape, initial, dtype=data.dtype, device=data.device)
        size = counts.clamp(min=1).to(data.dtype).reshape((*counts.shape, *trailing))
        return (ops.scatter_reduce(begin, first, where, x, "sum") / size).movedim(first, back)  # type: ignore[no-any-return]
    how = _SCATTER[reduce]
    begin = ops.full(shape, _OF_NONE[how] if initial is None else initial, dtype=data.dtype, device=data.device)
    bound = initial is not None and how in ("amax", "amin")
    found = ops.scatter_reduce(begin, first, where, x, how, include_self=initial is not None and not bound)
    if bound:  # compared afterwards: an element that is equal to it has its whole gradient
        best = (ops.maximum if how == "amax" else ops.minimum)(found.detach(), begin)
        found = ops.where((found == best) | found.isnan(), found, best)
    return found.movedim(first, back)  # type: ignore[no-any-return]


def _counts(lengths: Tensor | None, offsets: Tensor | None, data: Tensor, axis: int, unsafe: bool) -> Tensor:
    """How many slices each segment has: [s], or [*rows, s] where each row has its own."""
    given: Any = lengths if offsets is None else offsets
    name = "lengths" if offsets is None else "offsets"
    if given.ndim < 1 or given.is_floating_point() or given.dtype == _C.bool:
        raise _C.DTypeError(f"segment_reduce: {name} are {given.dtype} of shape {list(given.shape)}; expected integers, one axis or more")
    if given.ndim > 1 and (axis != given.ndim - 1 or given.shape[:-1] != data.shape[:axis]):
        got = f"{name} of shape {list(given.shape)} with data of shape {list(data.shape)} and axis = {axis}"
        raise _C.ShapeError(f"segment_reduce: {got}; expected the data's axes before `axis`, and one of segments")
    size, given = data.shape[axis], given.to(_C.int64)
    if offsets is not None:
        if given.shape[-1] < 1 or bool((given[..., 0] != 0).any().item()):
            raise _C.ArgumentError("segment_reduce: offsets do not begin with 0; expected 0, ..., the size of the axis")
        given = given[..., 1:] - given[..., :-1]
    sums = given.sum(-1)
    if unsafe and bool((sums <= size).all().item()) and sums.numel() and bool((sums == sums.max()).all().item()):
        size = int(sums.max().item())
    if bool((sums != size).any().item()) or bool((given < 0).any().item()):
        raise _C.ArgumentError(f"segment_reduce: the segments' lengths add up to {sums.tolist()}; expected {size}, none below 0")
    return given  # type: ignore[no-any-return]
