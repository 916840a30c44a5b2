"""Floats rounded to the values that integers of a scale would have: what training for quantised models computes with."""

from __future__ import annotations

from typing import Any

from flambeau._C import ArgumentError, ShapeError, Tensor, int64, ops
from flambeau._spelled import spelled
from flambeau.autograd.function import Function

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


class _Rounded(Function):
    """Gradients go through where the integer is inside of its limits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
        at = ops.round(x.float() * (1.0 / scale)) + zero_point
        ctx.save_for_backward((at >= low) & (at <= high))
        return ((at.clamp(low, high) - zero_point) * scale).to(x.dtype)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        (inside,) = ctx.saved_tensors
        return dy * inside, None, None, None, None


def _check(op: str, x: Tensor, low: int, high: int) -> None:
    if not x.is_floating_point():
        raise ArgumentError(f"{op}: input is {x.dtype}; expected floats")
    if low > high:
        raise ArgumentError(f"{op}: quant_min = {low}, quant_max = {high}; expected quant_min <= quant_max")


@spelled()
def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """(clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale, with a gradient of 1 where nothing was cut off.

    Args:
        scale: a number, or a tensor of one.
        zero_point: an integer, or a tensor of one.

    Raises:
        ArgumentError: no floats, limits in the wrong order, or a zero point beyond them.

    >>> import flambeau as fl
    >>> fl.fake_quantize_per_tensor_affine(fl.tensor([0.26, 9.0]), 0.5, 0, 0, 7)
    tensor([0.5000, 3.5000])
    """
    op = "fake_quantize_per_tensor_affine"
    _check(op, input, quant_min, quant_max)
    for name, value in (("scale", scale), ("zero_point", zero_point)):
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ShapeError(f"{op}: {name} has shape {list(value.shape)}; expected one element")
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise ArgumentError(f"{op}: zero_point = {zero_point}; expected {quant_min} to {quant_max}")
    parts = [value.detach().reshape(()) if isinstance(value, Tensor) else value for value in (scale, zero_point)]
    return _Rounded.apply(input, *parts, quant_min, quant_max)  # type: ignore[no-any-return]


@spelled()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each place along an axis.

    Shape: input [*], scale and zero_point [input.shape[axis]] -> [*].

    Raises:
        ArgumentError: no floats, limits in the wrong order, or a zero point beyond them.
    """
    op = "fake_quantize_per_channel_affine"
    _check(op, input, quant_min, quant_max)
    if not -input.dim() <= axis < input.dim():
        raise IndexError(f"{op}: axis = {axis}, but input has shape {list(input.shape)}")
    for name, value in (("scale", scale), ("zero_point", zero_point)):
        if list(value.shape) != [input.shape[axis]]:
            raise ShapeError(f"{op}: {name} has shape {list(value.shape)}; expected [{input.shape[axis]}], axis {axis} of the input")
    if zero_point.numel() and not zero_point.is_floating_point():
        low, high = zero_point.to(int64).amin().item(), zero_point.to(int64).amax().item()
        if low < quant_min or high > quant_max:
            raise ArgumentError(f"{op}: zero_point goes from {low} to {high}; expected {quant_min} to {quant_max}")
    shape = [1] * input.dim()
    shape[axis] = -1
    parts = [value.detach().reshape(shape) for value in (scale, zero_point)]
    return _Rounded.apply(input, *parts, quant_min, quant_max)  # type: ignore[no-any-return]
