"""Pools that are undone, of random windows, and of norms; and pools that always give their positions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from flambeau._C import ArgumentError, RangeError, ShapeError, Tensor, int64, ops
from flambeau._held import held
from flambeau._info import per_axis, switch, whole_number
from flambeau._no_tensor import wants_tensors
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional import _pooling
from flambeau.nn.functional._calls import batched

__all__ = [
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool3d",
    "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _with_indices(name: str) -> Any:
    """The pool `name` that gives (values, indices)."""
    pool = getattr(_pooling, name)

    @functools.wraps(pool)
    def with_indices(*args: Any, **kwargs: Any) -> Any:
        return pool(*args, **{**kwargs, "return_indices": True})

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"`{name}`, and the positions of the maxima in the flattened plane or box."
    return with_indices


max_pool1d_with_indices = _with_indices("max_pool1d")
max_pool2d_with_indices = _with_indices("max_pool2d")
max_pool3d_with_indices = _with_indices("max_pool3d")
adaptive_max_pool1d_with_indices = _with_indices("adaptive_max_pool1d")
adaptive_max_pool2d_with_indices = _with_indices("adaptive_max_pool2d")
adaptive_max_pool3d_with_indices = _with_indices("adaptive_max_pool3d")


def _ratios(op: str, value: Any, axes: int) -> tuple[Any, ...]:
    ratios = (value,) * axes if isinstance(value, (int, float)) else tuple(value)
    if len(ratios) != axes:
        raise ArgumentError(f"{op}: output_ratio = {value}; expected one number or {axes}")
    if not all(0 < ratio < 1 for ratio in ratios):
        raise ArgumentError(f"{op}: output_ratio = {value}; expected numbers between 0 and 1")
    return ratios


# ---------------------------------------------------------------- norms


def _lp_pool(op: str, x: Tensor, p: float, kernel: Any, stride: int | Sequence[int] | None, ceil_mode: bool, axes: int) -> Tensor:
    sizes = per_axis(op, "kernel_size", kernel, axes)
    if math.isinf(p):
        extreme = _pooling.max_pool1d if axes == 1 else _pooling.max_pool3d
        return _pooling.extreme_pool(extreme, x, p, sizes, stride, ceil_mode)
    pool = _pooling.avg_pool1d if axes == 1 else _pooling.avg_pool3d
    mean = pool(ops.pow(x, p), sizes, stride, 0, ceil_mode)
    # relu stops the root's infinite slope at 0, where the gradient is 0.
    sums = mean.sign() * ops.relu(mean.abs()) * math.prod(sizes)
    return ops.pow(sums, 1.0 / p)


@wants_tensors
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The norm (sum x^p)^(1/p) over windows; NaN where an odd p leaves a sum below 0. p = inf takes the largest |x|, -inf the smallest.

    Shape: [N, C, L] or [C, L].
    """
    return _lp_pool("lp_pool1d", input, norm_type, kernel_size, stride, ceil_mode, 1)


@wants_tensors
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The norm (sum x^p)^(1/p) over windows; NaN where an odd p leaves a sum below 0. p = inf takes the largest |x|, -inf the smallest.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """
    return _lp_pool("lp_pool3d", input, norm_type, kernel_size, stride, ceil_mode, 3)


# ---------------------------------------------------------------- maxima put back


def _unpooled_sizes(
    op: str, x: Tensor, kernel: Any, stride: int | Sequence[int] | None, padding: int | Sequence[int], output_size: Any, axes: int,
) -> list[int]:  # fmt: skip
    k = per_axis(op, "kernel_size", kernel, axes)
    s = k if stride is None else per_axis(op, "stride", stride, axes)
    p = per_axis(op, "padding", padding, axes)
    usual = [(n - 1) * s[d] + k[d] - 2 * p[d] for d, n in enumerate(x.shape[-axes:])]
    if output_size is None:
        sizes = usual
    else:
        output_size = tuple(output_size)
        sizes = [whole_number(op, "output_size", n) for n in output_size[-axes:]]
        if len(output_size) not in (axes, axes + 2):
            raise ArgumentError(f"{op}: output_size = {list(output_size)}; expected {axes} or {axes + 2} numbers")
        for d in range(axes):
            if not usual[d] - s[d] < sizes[d] < usual[d] + s[d]:
                raise ArgumentError(
                    f'{op}: invalid output_size "{tuple(output_size)}" (dim {d} must be between {usual[d] - s[d]} and {usual[d] + s[d]})'
                )
    if min(sizes) < 0:
        raise ArgumentError(f"{op}: the result would have positions {sizes}; expected none below 0")
    return sizes


@widens
def _unpool(
    axes: int, x: Tensor, indices: Tensor, kernel: Any, stride: int | Sequence[int] | None, padding: int | Sequence[int], output_size: Any,
) -> Tensor:  # fmt: skip
    op = f"max_unpool{axes}d"
    if x.shape != indices.shape:
        raise ShapeError(
            f"{op}: Expected shape of indices to be same as that of the input tensor ({list(x.shape)}) "
            f"but got indices tensor with shape: {list(indices.shape)}"
        )
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(f"{op}: input has shape {list(x.shape)}; expected {axes + 1} or {axes + 2} axes")
    sizes = _unpooled_sizes(op, x, kernel, stride, padding, output_size, axes)
    lead, room = x.shape[:-axes], math.prod(sizes)
    flat = indices.flatten(len(lead))
    given = held(flat)
    if given.numel() and not given.is_meta and bool(((given < 0) | (given >= room)).any()):
        wrong = int(given.min() if given.min() < 0 else given.max())
        raise RangeError(f"{op}: Found an invalid max index: {wrong}; expected 0 to {room - 1}, positions in {sizes}")
    places = x.new_zeros((*lead, room)).scatter(-1, flat, x.flatten(len(lead)))
    return places.reshape(*lead, *sizes)


@wants_tensors
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, output_size: Any = None
) -> Tensor:
    """Puts the maxima of `max_pool1d(..., return_indices=True)` where they were, among zeros.

    Args:
        output_size: the size before the pool, where several have one result.

    Shape: [N, C, L] or [C, L].

    Raises:
        ShapeError: input and indices have different shapes.
        IndexError: an index outside of the result.
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@wants_tensors
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, output_size: Any = None
) -> Tensor:
    """Puts the maxima of `max_pool2d(..., return_indices=True)` where they were, among zeros; see `max_unpool1d`.

    Shape: [N, C, H, W] or [C, H, W].
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@wants_tensors
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, output_size: Any = None
) -> Tensor:
    """Puts the maxima of `max_pool3d(..., return_indices=True)` where they were, among zeros; see `max_unpool1d`.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---------------------------------------------------------------- random windows


def _starts(u: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """Where `count` windows begin on an axis: by steps of nearly (size - kernel) / (count - 1), shifted by u, [N, C, count]."""
    last = ops.full((*u.shape, 1), size - kernel, dtype=u.dtype, device=u.device)
    if count == 1:
        return last.to(int64)
    alpha = (size - kernel) / (count - 1)
    i = ops.arange(count - 1, dtype=u.dtype, device=u.device)
    u = u.unsqueeze(-1)
    return ops.cat([ops.trunc((i + u) * alpha) - ops.trunc(u * alpha), last], -1).to(int64)


def _fractional(axes: int, x: Tensor, kernel: tuple[int, ...], sizes: tuple[int, ...], samples: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of random windows of [N, C, *axes], and their positions."""
    n, c, room = x.shape[0], x.shape[1], x.shape[2:]
    order = (1, 0) if axes == 2 else (0, 1, 2)  # which sample an axis takes
    index: Any = 0
    for d in range(axes):
        starts = _starts(samples[..., order[d]], room[d], kernel[d], sizes[d])
        shape = [n, c, *[1] * (2 * axes)]
        shape[2 + d], shape[2 + axes + d] = sizes[d], kernel[d]
        window = starts.unsqueeze(-1) + ops.arange(kernel[d], device=x.device)
        index = index * room[d] + window.reshape(shape)
    index = index.reshape(n, c, math.prod(sizes), math.prod(kernel))
    values = x.flatten(2).gather(2, index.flatten(2)).reshape(index.shape)
    top, at = values.max(-1)
    return top.reshape(n, c, *sizes), index.gather(-1, at.unsqueeze(-1)).reshape(n, c, *sizes)


@widens
def _fractional_max_pool(
    axes: int, input: Tensor, kernel_size: int | Sequence[int], output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    op = f"fractional_max_pool{axes}d"
    if (output_size is None) and (output_ratio is None):
        raise ArgumentError(f"{op}: got neither output_size nor output_ratio; expected one of them")
    kernel = per_axis(op, "kernel_size", kernel_size, axes)
    if input.ndim not in (axes + 1, axes + 2):
        raise ShapeError(f"{op}: input has shape {list(input.shape)}; expected {axes + 1} or {axes + 2} axes")
    room = input.shape[-axes:]
    if output_size is None:
        sizes = tuple(int(s * r) for s, r in zip(room, _ratios(op, output_ratio, axes)))
    else:
        sizes = per_axis(op, "output_size", output_size, axes)
    for d in range(axes):
        if not (kernel[d] >= 1 and sizes[d] >= 1 and sizes[d] + kernel[d] - 1 <= room[d]):
            raise ShapeError(
                f"{op}: {sizes[d]} windows of {kernel[d]} do not fit into the {room[d]} elements of axis {d} of {list(room)}"
            )
    lead = tuple(input.shape[:-axes])
    wanted = ((1, *lead) if input.ndim == axes + 1 else lead) + (axes,)
    if samples is None:
        samples = ops.rand(wanted, dtype=input.dtype, device=input.device)
    elif tuple(samples.shape) != wanted:
        raise ShapeError(f"{op}: _random_samples has shape {list(samples.shape)}; expected {list(wanted)}")
    result: tuple[Tensor, Tensor] = batched(op, lambda x: _fractional(axes, x, kernel, sizes, samples), axes, input)
    return result


@wants_tensors
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d`, and the positions of the maxima in the flattened plane."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


@wants_tensors
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d`, and the positions of the maxima in the flattened box."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


@wants_tensors
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows that begin at random places, so that any size can be reached.

    Args:
        output_size: how many windows along each axis; or
        output_ratio: how many for each element.
        _random_samples: [N, C, 2] between 0 and 1, instead of draws.

    Shape: [N, C, H, W] or [C, H, W].

    Raises:
        ValueError: neither output_size nor output_ratio.
        ShapeError: more windows than fit.

    Source: Graham, "Fractional max-pooling", arXiv:1412.6071.
    """
    if return_indices is not False and return_indices is not True:
        return_indices = switch("fractional_max_pool2d", "return_indices", return_indices)
    pair = _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


@wants_tensors
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of boxes that begin at random places; see `fractional_max_pool2d`.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """
    if return_indices is not False and return_indices is not True:
        return_indices = switch("fractional_max_pool3d", "return_indices", return_indices)
    pair = _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]
