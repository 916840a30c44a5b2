"""Losses that are negative log likelihoods, or differ from one by a constant."""

from __future__ import annotations

import math

from flambeau._C import ArgumentError, DTypeError, ShapeError, Tensor, ops
from flambeau._held import held
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain, wants_tensors
from flambeau._warn import warn
from flambeau.amp.autocast_mode import widens
from flambeau.autograd import no_grad
from flambeau.nn.functional._reduction import (
    REDUCTIONS,
    check_same_shape,
    of_one_shape,
    reduced,
    reduction_kind,
    reduction_word,
)

__all__ = [
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "poisson_nll_loss",
    "gaussian_nll_loss",
]


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log of the softmax probability of the target class.

    Shape: input [C], [N, C] or [N, C, *]; target class indices without the C dimension (of an input [C]
    without `label_smoothing` also [1]), or class probabilities of the input's shape.

    Raises:
        ValueError: the shapes do not fit, or `label_smoothing` is outside [0, 1].
    """
    kind = reduction_kind("cross_entropy", reduction_word(size_average, reduce, reduction))
    try:
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
        numbers = not target.is_floating_point()
        if input.ndim == 1 and not label_smoothing:
            target = target.squeeze(0)
    except CONFUSED as error:
        explain(error, cross_entropy, (input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing))
        raise
    if numbers:
        return ops.cross_entropy(input, target, weight, kind, ignore_index, label_smoothing)
    if not hasattr(ignore_index, "__index__") or ignore_index >= 0:
        raise ArgumentError(f"cross_entropy: ignore_index = {ignore_index} with a target of {target.dtype}, which has no indices to ignore")
    return _cross_entropy_of_shares(input, target, weight, kind, label_smoothing)


@widens
def _cross_entropy_of_shares(input: Tensor, target: Tensor, weight: Tensor | None, kind: int, label_smoothing: float) -> Tensor:
    if target.dim() == input.dim() - 1:
        raise DTypeError(
            f"cross_entropy: expected target dtype to be Long or Byte (int64, uint8 or int32), but got {target.dtype} "
            f"of shape {list(target.shape)} "
            f"(target.long()); class probabilities have input's shape {list(input.shape)}"
        )
    check_same_shape("cross_entropy (class probabilities)", input, target)
    dim = 0 if input.dim() == 1 else 1
    n_classes = input.shape[dim]
    if label_smoothing > 0.0 and n_classes:
        target = target * (1.0 - label_smoothing) + label_smoothing / n_classes
    log_p = ops.log_softmax(input, dim)
    if weight is not None:
        log_p = log_p * weight.reshape((n_classes,) + (1,) * (input.dim() - 1 - dim))
    loss = -(log_p * target).sum(dim)
    if kind == 1:
        return loss.sum() / (loss.numel() if n_classes else 0)
    return loss if kind == 0 else loss.sum()


@widens
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood from log probabilities.

    Shape: input [C], [N, C] or [N, C, *]; target the same without C, of an input [C] also [1].
    """
    kind = reduction_kind("nll_loss", reduction_word(size_average, reduce, reduction))
    if input.ndim == 1:
        target = target.squeeze(0)
    return ops.nll_loss(input, target, weight, kind, ignore_index)


@widens
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) for probabilities x.

    Raises:
        ValueError: the shapes differ (nothing is broadcast), or an input or target is outside
        [0, 1].
    """
    check_same_shape("binary_cross_entropy", input, target)
    kind = reduction_kind("binary_cross_entropy", reduction_word(size_average, reduce, reduction))
    if weight is not None and weight.shape != input.shape:
        weight = weight.expand(input.shape)
    return ops.binary_cross_entropy(input, target, weight, kind)


@widens
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), stable for large |input|.

    Logits and weights of another floating point type than the target's are taken as that, which is the loss's type.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    op = "binary_cross_entropy_with_logits"
    check_same_shape(op, input, target)
    kind = reduction_kind(op, reduction_word(size_average, reduce, reduction))
    if target.is_floating_point():
        input = input.to(target.dtype) if input.is_floating_point() else input
        weight, pos_weight = (w if w is None else w.to(target.dtype) for w in (weight, pos_weight))
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, kind)


@widens
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log target - input), the input being log probabilities.

    `reduction='batchmean'` divides the sum by the batch size, which is the mathematical value.
    """
    if log_target is not False and log_target is not True:
        log_target = switch("kl_div", "log_target", log_target)
    batch = input.shape[0] if input.ndim else 1
    input, target = of_one_shape("kl_div", input, target)
    reduction = reduction_word(size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        some = target != 0
        safe = ops.where(some, target, ops.ones_like(target))
        entropy = ops.where(some, target * safe.log(), ops.zeros_like(target))
        loss = entropy - target * input
    if reduction == "batchmean":
        return loss.sum() / batch
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ArgumentError(f"kl_div: {reduction} is not a valid value for reduction; expected 'none', 'batchmean', 'mean' or 'sum'")
    if reduction == "mean":
        warn("kl_div: reduction = 'mean' divides by all elements; 'batchmean' is the KL divergence")
    return reduced("kl_div", loss, reduction)


@widens
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a Poisson distribution with rate exp(input) (or input)."""
    if log_input is not True and log_input is not False:
        log_input = switch("poisson_nll_loss", "log_input", log_input)
    if full is not False and full is not True:
        full = switch("poisson_nll_loss", "full", full)
    input, target = of_one_shape("poisson_nll_loss", input, target)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        big = target > 1
        safe = ops.where(big, target, ops.ones_like(target))
        stirling = safe * safe.log() - safe + 0.5 * (safe * (2 * math.pi)).log()
        loss = loss + ops.where(big, stirling, ops.zeros_like(target))
    return reduced("poisson_nll_loss", loss, reduction_word(size_average, reduce, reduction))


@wants_tensors
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2; no variance counts as less than `eps`.

    Shape: input and target [N, *]; var the same, with 1 in some places or without the last axis, or
    a number.

    Raises:
        ValueError: the shapes do not fit, or a variance is negative.
    """
    op = "gaussian_nll_loss"
    if full is not False and full is not True:
        full = switch("gaussian_nll_loss", "full", full)
    both = of_one_shape(op, input, target)
    if not isinstance(var, Tensor):
        var = ops.full_like(input.detach(), var, requires_grad=False)
    elif var.shape != input.shape:
        if tuple(var.shape) == tuple(input.shape[:-1]):
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or any(v not in (1, n) for v, n in zip(var.shape, input.shape)):
            raise ShapeError(
                f"{op}: var is of incorrect size: {list(var.shape)}; expected {list(input.shape)} with 1 in some places, "
                "or no last dimension"
            )
    given = held(var)
    if given.numel() and not given.is_meta:
        low = given.detach().amin().item()
        if low < 0:
            raise ArgumentError(f"{op}: var has negative entry/entries: {low:g}; expected variances >= 0")
    with no_grad():
        floor = (eps - var.detach()).clamp(min=0)
    var = var + floor
    input, target = both
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(op, loss, reduction)
