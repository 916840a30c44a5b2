"""Dropout: of elements, of whole channels, and with mean and variance kept."""

from __future__ import annotations

import math

from flambeau._C import ArgumentError, ShapeError, Tensor, ops
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain, wants_tensors
from flambeau._warn import warn

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]


def check_p(op: str, p: float) -> None:
    """Refuses what is no probability."""
    try:
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"{op}: dropout probability has to be between 0 and 1, but got {p}")
    except TypeError:
        raise TypeError(f"{op}: p = {p!r} is a {type(p).__name__}; expected a number") from None


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability `p` and divides the rest by 1 - p.

    Raises:
        ValueError: `p` is no probability.

    Source: Srivastava et al. 2014.
    """
    if p.__class__ is not float or not 0.0 <= p <= 1.0:  # saves most calls the call
        check_p("dropout", p)
    return ops.dropout(input, p, training, inplace)


def _feature_dropout(op: str, x: Tensor, p: float, training: bool, inplace: bool, n: int) -> Tensor:
    """Drops what lies behind the axes of samples and channels: the first two, or the first one of one sample."""
    check_p(op, p)
    if training is not True and training is not False:
        training = switch(op, "training", training)
    rank = x.dim()
    lead = 1 if (n, rank) == (1, 2) or (n == 3 and rank < 5) else 2
    if n == 1 and rank not in (2, 3) or rank < lead:
        raise ShapeError(f"{op}: input has shape {list(x.shape)}; expected {n + 1} or {n + 2} dims")
    if rank != n + 2 and (n == 2 or rank != n + 1):
        dropped = "its elements are dropped one by one" if rank == lead else f"each x[{', '.join('nc'[-lead:])}] is dropped as a whole"
        warn(f"{op}: input has shape {list(x.shape)}; {dropped}, but {n + 2} dims (x[None] of one sample) were expected")
    if not training or p == 0.0:
        return x
    if rank == lead:
        return ops.dropout(x, p, training, inplace)
    mask = ops.dropout(ops.ones_like(x[(slice(None),) * lead + (slice(0, 1),) * (rank - lead)]), p, True)
    return (ops.mul_ if inplace else ops.mul)(x, mask.detach())


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of [N, C, L] or [C, L]."""
    try:
        return _feature_dropout("dropout1d", input, p, training, inplace, 1)
    except CONFUSED as error:
        explain(error, dropout1d, (input, p, training, inplace))
        raise


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of [N, C, H, W]; what has three axes is taken as [N, C, L], as in PyTorch, and a warning says so."""
    try:
        return _feature_dropout("dropout2d", input, p, training, inplace, 2)
    except CONFUSED as error:
        explain(error, dropout2d, (input, p, training, inplace))
        raise


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    try:
        return _feature_dropout("dropout3d", input, p, training, inplace, 3)
    except CONFUSED as error:
        explain(error, dropout3d, (input, p, training, inplace))
        raise


@wants_tensors
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks.

    Source: Klambauer et al. 2017, section 3.
    """
    check_p("alpha_dropout", p)
    if training is not True and training is not False:
        training = switch("alpha_dropout", "training", training)
    return _alpha_dropout(input, p, training, inplace, input.shape)


@wants_tensors
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of [N, C, *].

    Raises:
        ShapeError: an input without channels.
    """
    check_p("feature_alpha_dropout", p)
    if training is not True and training is not False:
        training = switch("feature_alpha_dropout", "training", training)
    if input.ndim < 2 and training:
        raise ShapeError(f"feature_alpha_dropout: input has shape {list(input.shape)}; expected [N, C, *]")
    return _alpha_dropout(input, p, training, inplace, (*input.shape[:2], *[1] * (input.ndim - 2)))


def _alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    """Drops by a mask of this shape, which broadcasts."""
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return (ops.mul_ if inplace else ops.mul)(input, False)  # which leaves every type what it is
    saturated = -1.7580993408473766  # -lambda * alpha of SELU
    a = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * saturated**2))
    b = -a * saturated * p
    keep = (ops.rand(shape, dtype=input.dtype, device=input.device) >= p).to(input.dtype)
    fill = (1.0 - keep) * saturated
    if inplace:
        return input.mul_(keep).add_(fill).mul_(a).add_(b)
    return (input * keep + fill) * a + b
