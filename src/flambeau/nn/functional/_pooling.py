"""Maxima and means over windows."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau.nn.functional._calls import batched

__all__ = [
    "max_pool1d",
    "max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "lp_pool2d",
]


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, L] or [C, L].
    """
    op = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    stride = kernel_size if stride is None else stride
    return batched(
        "max_pool1d", op, 1, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    op = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    stride = kernel_size if stride is None else stride
    return batched(
        "max_pool2d", op, 2, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
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


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    stride = kernel_size if stride is None else stride
    rest = () if divisor_override is None else (divisor_override,)
    return batched(  # type: ignore[no-any-return]
        "avg_pool2d", ops.avg_pool2d, 2, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad, *rest,
    )  # fmt: skip


def _adaptive_size(op: str, input: Tensor, output_size: Any, axes: int) -> tuple[int, ...]:
    sizes = (output_size,) * axes if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if len(sizes) != axes:
        raise ValueError(f"{op}: output_size = {output_size}; expected one int or {axes}")
    return tuple(s if o is None else o for o, s in zip(sizes, input.shape[-axes:]))


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    name = "adaptive_avg_pool1d"
    sizes = _adaptive_size(name, input, output_size, 1)
    return batched(name, ops.adaptive_avg_pool1d, 1, input, sizes)  # type: ignore[no-any-return]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    name = "adaptive_avg_pool2d"
    sizes = _adaptive_size(name, input, output_size, 2)
    return batched(name, ops.adaptive_avg_pool2d, 2, input, sizes)  # type: ignore[no-any-return]


def _adaptive_max_pool(axes: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{axes}d"
    sizes = _adaptive_size(name, input, output_size, axes)
    op = ops.adaptive_max_pool1d_with_indices if axes == 1 else ops.adaptive_max_pool2d_with_indices
    values, indices = batched(name, op, axes, input, sizes)
    return (values, indices) if return_indices else values


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The norm (sum x^p)^(1/p) over windows; NaN where an odd p leaves a sum below 0.

    Shape: [N, C, H, W] or [C, H, W].
    """
    kh, kw = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    mean = avg_pool2d(input**norm_type, (kh, kw), stride, 0, ceil_mode)
    # relu stops the root's infinite slope at 0, where the gradient is 0.
    signed = mean.sign() * ops.relu(mean.abs())
    return (signed * (kh * kw)) ** (1.0 / norm_type)
