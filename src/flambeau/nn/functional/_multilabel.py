"""Losses of several classes on the right side of a margin, and distances of all pairs."""

from __future__ import annotations

import math
from collections.abc import Callable

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops
from flambeau._held import held
from flambeau._info import switch
from flambeau._no_tensor import wants_tensors
from flambeau._spelled import spelled
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional._margin import pairwise_distance
from flambeau.nn.functional._reduction import (
    check_same_shape,
    of_one_shape,
    reduced,
    reduction_word,
)

__all__ = ["multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "pdist", "triplet_margin_with_distance_loss"]


@widens
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes j of max(0, margin - x[target] + x[j])^p, without j = target.

    Args:
        weight: [C], by the class of the target.

    Shape: input [N, C] or [C], target int64 [N] or [].

    Raises:
        ValueError: p is neither 1 nor 2.
        ShapeError: shapes that do not fit.
        IndexError: a target that is no class.
    """
    name = "multi_margin_loss"
    if p not in (1, 2):
        raise _C.ArgumentError(f"{name}: only p == 1 and p == 2 supported, got {p}")
    single = input.ndim <= 1
    x = input.reshape(1, -1) if single else input
    if x.ndim != 2 or x.shape[-1] == 0 or target.numel() != x.shape[0] or target.ndim > 1:
        shapes = f"input has shape {list(input.shape)}, target {list(target.shape)}"
        raise ShapeError(f"{name}: {shapes}; expected [N, C] and [N], or [C] and []")
    c = x.shape[1]
    if weight is not None and tuple(weight.shape) != (c,):
        raise ShapeError(f"{name}: inconsistent weight size, expected {c} but got {list(weight.shape)}")
    loss = ops.multi_margin_rows(x, target.reshape(-1), p, margin, weight)
    return reduced(name, loss.reshape(()) if target.ndim == 0 else loss, reduction_word(size_average, reduce, reduction))


@widens
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The sum over targets y and other classes i of max(0, 1 - x[y] + x[i]), over the number of classes.

    Args:
        target: classes up to the first -1 of each row.

    Shape: input [N, C] or [C], target int64 of the same shape.

    Raises:
        ShapeError: other shapes.
        IndexError: a target below -1 or that is no class.
    """
    name = "multilabel_margin_loss"
    check_same_shape(name, input, target)
    if input.ndim > 2 or (input.ndim == 2 and input.shape[1] == 0):
        raise ShapeError(f"{name}: input has shape {list(input.shape)}; expected [N, C] or [C]")
    if target.dtype is not _C.int64:
        raise TypeError(f"{name}: target is {target.dtype}; expected int64")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    y = target.reshape(x.shape)
    c = x.shape[1]
    given = held(y)
    most = c
    if given.numel() and not given.is_meta:
        if bool(((given < -1) | (given >= c)).any()):
            raise _C.RangeError(f"{name}: targets go from {int(given.min())} to {int(given.max())}; expected -1 to {c - 1}")
        most = max(1, int((given >= 0).to(_C.int64).cumprod(-1).sum(-1).max()))  # most rows have few targets
    y = y[:, :most]
    valid = (y >= 0).to(_C.int64).cumprod(1)  # up to the first -1
    safe = y * valid
    named = ops.zeros_like(x, dtype=_C.int64).scatter_add(1, safe, valid) > 0
    short = (1 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)).relu()  # [N, targets, classes]
    counted = (valid.unsqueeze(2) * (~named).to(_C.int64).unsqueeze(1)).to(x.dtype)
    loss = (short * counted).sum([1, 2]) / c
    return reduced(name, loss if input.ndim == 2 else loss.reshape(()), reduction_word(size_average, reduce, reduction))


@wants_tensors
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of -(y log sigmoid(x) + (1 - y) log sigmoid(-x)).

    Args:
        weight: of the classes, [C].

    Shape: input and target [*, C].
    """
    name = "multilabel_soft_margin_loss"
    if input.ndim == 0:
        raise ShapeError(f"{name}: input is 0-d; expected [*, C]")
    axis, classes = input.ndim - 1, input.shape[-1]  # of the input as it was given, also where PyTorch's broadcasting adds axes before
    input, target = of_one_shape(name, input, target)
    loss = -(target * ops.logsigmoid(input) + (1 - target) * ops.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(name, loss.sum(axis) / classes, reduction_word(size_average, reduce, reduction))


@wants_tensors
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d (default: `pairwise_distance`).

    Args:
        swap: d(positive, negative) counts where it is less than d(anchor, negative).

    Raises:
        ValueError: a margin that is not above 0.
    """
    name = "triplet_margin_with_distance_loss"
    if swap is not False and swap is not True:
        swap = switch("triplet_margin_with_distance_loss", "swap", swap)
    if margin <= 0:
        raise _C.ArgumentError(f"{name}: margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{name}: anchor, positive and negative have {anchor.ndim}, {positive.ndim} and {negative.ndim} axes; expected as many"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced(name, (near - far + margin).clamp(min=0), reduction)


@spelled()
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """|x[i] - x[j]|_p of all rows i < j.

    Shape: [N, M] -> [N (N - 1) / 2].

    Raises:
        ShapeError: not two axes.
        ValueError: a p that is not 0 or above.
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist: input has shape {list(input.shape)}; expected [N, M]")
    if not p >= 0:
        raise _C.ArgumentError(f"pdist: p = {p}; expected >= 0")
    if input.shape[1] and 0 < p < math.inf and input.dtype in (_C.float32, _C.float64):
        return ops.pdist_direct(input, float(p))
    n = input.shape[0]
    i, j = ops.triu_indices(n, n, 1).unbind()
    if not input.shape[1]:
        return input.new_zeros(i.shape[0])
    from flambeau._functions import cdist

    return cdist(input, input, p, "donot_use_mm_for_euclid_dist").flatten().index_select(0, i * n + j)
