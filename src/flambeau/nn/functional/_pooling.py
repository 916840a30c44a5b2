"""Maxima and means over windows.

Over three dimensions a window is a box, so maxima and means are taken over [H, W] and then over D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from flambeau._C import ArgumentError, Tensor, ops
from flambeau._errors import NoTensorError
from flambeau._info import per_axis, switch
from flambeau._no_tensor import wants_tensors
from flambeau._out import takes_out
from flambeau._spelled import spelled
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional._calls import batched

__all__ = [
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "lp_pool2d",
]


@overload
def max_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: bool,
) -> Any: ...


def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, L] or [C, L].
    """
    if return_indices is not False and return_indices is not True:
        return_indices = switch("max_pool1d", "return_indices", return_indices)
    op = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    stride = kernel_size if stride is None else stride
    return batched(
        "max_pool1d", op, 1, input, kernel_size, stride, padding, dilation, ceil_mode
    )


@overload
def max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: bool,
) -> Any: ...


def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    if return_indices is not False and return_indices is not True:
        return_indices = switch("max_pool2d", "return_indices", return_indices)
    op = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    stride = kernel_size if stride is None else stride
    return batched(
        "max_pool2d", op, 2, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def _three(op: str, name: str, value: Any) -> tuple[int, int, int]:
    if not isinstance(value, int) and getattr(value, "__len__", int)() == 1:
        value = tuple(value) * 3
    return per_axis(op, name, value, 3)  # type: ignore[return-value]


def _planes(x: Tensor) -> Tensor:
    """[N, C, D, H, W] -> [N, C D, H, W]."""
    n, c, d, h, w = x.shape
    return x.reshape(n, c * d, h, w)


def _boxes(x: Tensor, planes: Tensor, over_depth: Callable[[Tensor], Tensor]) -> Tensor:
    """What became of the planes of x, [N, C D, H', W'], pooled over D: [N, C, D', H', W'].

    D and the places of a plane are a plane of their own, [D, H' W'], with windows of one place.
    """
    n, c, d, _, _ = x.shape
    _, _, h, w = planes.shape
    y = over_depth(planes.reshape(n * c, 1, d, h * w))
    return y.reshape(n, c, y.shape[2], h, w)


def _max_of_boxes(x: Tensor, over_planes: Any, over_depth: Any) -> tuple[Tensor, Tensor]:
    """The maxima of boxes and their positions in [D, H, W], by maxima over planes and then over D."""
    flat, at = over_planes(_planes(x))
    places: list[Tensor] = []

    def maxima(planes: Tensor) -> Tensor:
        values, where = over_depth(planes)
        n, _, d, hw = planes.shape
        in_plane = at.reshape(n, d * hw).gather(1, where.flatten(1)).reshape(where.shape)
        places.append(in_plane + where.div(hw, rounding_mode="floor") * (x.shape[3] * x.shape[4]))
        return values  # type: ignore[no-any-return]

    values = _boxes(x, flat, maxima)
    return values, places[0].reshape(values.shape)


@overload
def max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...


@overload
def max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = ..., padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ..., ceil_mode: bool = ...,
    *, return_indices: bool,
) -> Any: ...


def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows; `return_indices` also gives the positions in the flattened [D, H, W].

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """
    name = "max_pool3d"
    if return_indices is not False and return_indices is not True:
        return_indices = switch("max_pool3d", "return_indices", return_indices)
    if not return_indices:
        stride = kernel_size if stride is None else stride
        return batched(name, ops.max_pool3d, 3, input, kernel_size, stride, padding, dilation, ceil_mode)
    k = _three(name, "kernel_size", kernel_size)
    s = k if stride is None else _three(name, "stride", stride)
    p, d = _three(name, "padding", padding), _three(name, "dilation", dilation)

    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        return _max_of_boxes(
            x,
            lambda y: ops.max_pool2d_with_indices(y, k[1:], s[1:], p[1:], d[1:], ceil_mode),
            lambda y: ops.max_pool2d_with_indices(y, (k[0], 1), (s[0], 1), (p[0], 0), (d[0], 1), ceil_mode),
        )

    return batched(name, pool, 3, input)


def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, L] or [C, L].
    """
    stride = kernel_size if stride is None else stride
    return batched(  # type: ignore[no-any-return]
        "avg_pool1d", ops.avg_pool1d, 1, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad,
    )  # fmt: skip


@takes_out
def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *, out: Tensor | None = None,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    stride = kernel_size if stride is None else stride
    rest = () if divisor_override is None else (divisor_override,)
    if divisor_override == 0:
        raise ArgumentError("avg_pool2d: divisor must be not zero (divisor_override = 0)")
    return batched(  # type: ignore[no-any-return]
        "avg_pool2d", ops.avg_pool2d, 2, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad, *rest,
    )  # fmt: skip


@takes_out
@widens
def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *, out: Tensor | None = None,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """
    stride = kernel_size if stride is None else stride
    rest = () if divisor_override is None else (divisor_override,)
    if divisor_override == 0:
        raise ArgumentError("avg_pool3d: divisor_override = 0; expected another divisor")
    return batched(  # type: ignore[no-any-return]
        "avg_pool3d", ops.avg_pool3d, 3, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad, *rest,
    )  # fmt: skip


def _adaptive_size(op: str, input: Tensor, output_size: int | Sequence[int | None] | None, axes: int) -> tuple[int, ...]:
    if output_size is None or (isinstance(output_size, (tuple, list)) and len(output_size) == axes and None in output_size):
        if not isinstance(input, Tensor) and not hasattr(input, "shape"):
            raise NoTensorError(f"{op}: input is a {type(input).__name__}; expected a Tensor")
        sizes = (None,) * axes if output_size is None else output_size
        output_size = tuple(s if o is None else o for o, s in zip(sizes, input.shape[-axes:]))
    return per_axis(op, "output_size", output_size, axes)


@spelled()
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Mean over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    name = "adaptive_avg_pool1d"
    sizes = _adaptive_size(name, input, output_size, 1)
    return batched(name, ops.adaptive_avg_pool1d, 1, input, sizes)  # type: ignore[no-any-return]


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Mean over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    name = "adaptive_avg_pool2d"
    sizes = _adaptive_size(name, input, output_size, 2)
    return batched(name, ops.adaptive_avg_pool2d, 2, input, sizes)  # type: ignore[no-any-return]


@widens
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Mean over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, D, H, W] -> [N, C, *output_size], or both without N.
    """
    name = "adaptive_avg_pool3d"
    sizes = _adaptive_size(name, input, output_size, 3)

    def pool(x: Tensor) -> Tensor:
        flat = ops.adaptive_avg_pool2d(_planes(x), sizes[1:])
        return _boxes(x, flat, lambda y: ops.adaptive_avg_pool2d(y, (sizes[0], y.shape[3])))

    return batched(name, pool, 3, input)  # type: ignore[no-any-return]


def _adaptive_max_pool(axes: int, input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{axes}d"
    if return_indices is not False and return_indices is not True:
        return_indices = switch(name, "return_indices", return_indices)
    sizes = _adaptive_size(name, input, output_size, axes)
    op = ops.adaptive_max_pool1d_with_indices if axes == 1 else ops.adaptive_max_pool2d_with_indices
    values, indices = batched(name, op, axes, input, sizes)
    return (values, indices) if return_indices else values


@overload
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...) -> Tensor: ...


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool) -> Any: ...


@spelled()
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    return _adaptive_max_pool(1, input, output_size, return_indices)


@overload
def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...) -> Tensor: ...


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool) -> Any: ...


def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


@overload
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...) -> Tensor: ...


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool) -> Any: ...


@widens
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, D, H, W] -> [N, C, *output_size], or both without N.
    """
    name = "adaptive_max_pool3d"
    if return_indices is not False and return_indices is not True:
        return_indices = switch("adaptive_max_pool3d", "return_indices", return_indices)
    sizes = _adaptive_size(name, input, output_size, 3)

    def over_planes(x: Tensor) -> tuple[Tensor, Tensor]:
        return ops.adaptive_max_pool2d_with_indices(x, sizes[1:])

    def over_depth(x: Tensor) -> tuple[Tensor, Tensor]:
        return ops.adaptive_max_pool2d_with_indices(x, (sizes[0], x.shape[3]))

    def values(x: Tensor) -> Tensor:
        return _boxes(x, over_planes(_planes(x))[0], lambda y: over_depth(y)[0])

    return batched(name, (lambda x: _max_of_boxes(x, over_planes, over_depth)) if return_indices else values, 3, input)


def extreme_pool(pool: Callable[..., Any], x: Tensor, p: float, kernel: Any, stride: Any, ceil_mode: bool) -> Tensor:
    """What the norm over windows becomes for p = inf or -inf."""
    if p > 0:
        return pool(x.abs(), kernel, stride, 0, 1, ceil_mode)  # type: ignore[no-any-return]
    return -pool(-x.abs(), kernel, stride, 0, 1, ceil_mode)  # type: ignore[no-any-return]


@wants_tensors
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm (sum x^p)^(1/p) over windows; NaN where an odd p leaves a sum below 0. p = inf takes the largest |x|, -inf the smallest.

    Shape: [N, C, H, W] or [C, H, W].
    """
    kh, kw = per_axis("lp_pool2d", "kernel_size", kernel_size, 2)
    if math.isinf(norm_type):
        return extreme_pool(max_pool2d, input, norm_type, (kh, kw), stride, ceil_mode)
    mean = avg_pool2d(ops.pow(input, norm_type), (kh, kw), stride, 0, ceil_mode)
    # relu stops the root's infinite slope at 0, where the gradient is 0.
    signed = mean.sign() * ops.relu(mean.abs())
    return (signed * (kh * kw)) ** (1.0 / norm_type)  # type: ignore[no-any-return]
