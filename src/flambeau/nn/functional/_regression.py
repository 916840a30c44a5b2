"""Losses of the difference between a value and its target."""

from __future__ import annotations

from flambeau._C import ArgumentError, Tensor, ops, result_type
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional._reduction import (
    of_one_shape,
    reduced,
    reduction_kind,
    reduction_word,
)

__all__ = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]


def _operands(op: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both, of one shape, in the type that they promote to."""
    input, target = of_one_shape(op, input, target, warns=True)
    if input.dtype == target.dtype:
        return input, target
    dtype = result_type(input, target)
    return input.to(dtype), target.to(dtype)


@widens
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)^2.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    input, target = _operands("mse_loss", input, target)
    reduction = reduction_word(size_average, reduce, reduction)
    if weight is None:
        return ops.mse_loss(input, target, reduction_kind("mse_loss", reduction))
    diff = input - target
    return reduced("mse_loss", diff * diff, reduction, weight)


@widens
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    input, target = _operands("l1_loss", input, target)
    reduction = reduction_word(size_average, reduce, reduction)
    if weight is None and input.is_floating_point():
        return ops.l1_loss(input, target, reduction_kind("l1_loss", reduction))
    return reduced("l1_loss", (input - target).abs(), reduction, weight)


@widens
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2.

    Source: Girshick 2015, "Fast R-CNN", eq. 3.
    """
    input, target = _operands("smooth_l1_loss", input, target)
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    reduction = reduction_word(size_average, reduce, reduction)
    kind = reduction_kind("smooth_l1_loss", reduction)
    if beta == 0:
        return ops.l1_loss(input, target, kind)
    return ops.smooth_l1_loss(input, target, kind, beta)


@widens
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where d = |input - target| < delta, else delta * (d - delta / 2).

    Source: Huber 1964.
    """
    input, target = _operands("huber_loss", input, target)
    if not delta > 0:
        raise ArgumentError(f"huber_loss does not support non-positive values for delta, got {delta}")
    if weight is None:
        return ops.huber_loss(input, target, reduction_kind("huber_loss", reduction), delta)
    loss = ops.huber_loss(input, target, reduction_kind("huber_loss", "none"), delta)
    return reduced("huber_loss", reduced("huber_loss", loss, "none", weight), reduction)
