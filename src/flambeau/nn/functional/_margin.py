"""Distances, and the losses that want them, or scores, on the right side of a margin."""

from __future__ import annotations

from flambeau._C import ArgumentError, ShapeError, Tensor, ops
from flambeau._functions import broadcast_tensors
from flambeau._info import switch
from flambeau._spelled import spelled
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional._reduction import of_one_shape, reduced, reduction_word

__all__ = [
    "cosine_similarity",
    "pairwise_distance",
    "cosine_embedding_loss",
    "margin_ranking_loss",
    "hinge_embedding_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


@spelled()
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`; the shapes broadcast.

    Raises:
        ValueError: eps is below 0, or no number.
    """
    if not eps >= 0:
        raise ArgumentError(f"cosine_similarity: eps = {eps}; expected eps >= 0")
    if x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    n1 = ops.norm(x1, 2, dim, keepdim=True).clamp(min=eps)
    n2 = ops.norm(x2, 2, dim, keepdim=True).clamp(min=eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


@spelled()
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """|x1 - x2 + eps|_p along the last dimension."""
    return ops.norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


@widens
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    Shape: inputs [N, D] or [D], target [N] or [1] (for all rows), or [].
    """
    of_one_shape("cosine_embedding_loss", input1, input2, names=("input1", "input2"), same_ndim=True)  # the sums below broadcast
    lead = tuple(input1.shape[:-1])
    if input1.dim() not in (1, 2) or tuple(target.shape) not in (lead, (1,) * len(lead)):
        raise ShapeError(
            f"cosine_embedding_loss: inputs have shape {list(input1.shape)}, target "
            f"{list(target.shape)}; expected [N, D] with [N] or [1], or [D] with []"
        )
    eps = 1e-12  # under the root, as the squared norms are what is multiplied
    dot = (input1 * input2).sum(-1)
    m1 = (input1 * input1).sum(-1) + eps
    m2 = (input2 * input2).sum(-1) + eps
    cos = dot / (m1 * m2).sqrt()
    zero = ops.zeros_like(cos)
    loss = ops.where(target == 1, 1 - cos, zero)
    loss = loss + ops.where(target == -1, (cos - margin).clamp(min=0), zero)
    return reduced("cosine_embedding_loss", loss, reduction_word(size_average, reduce, reduction))


@widens
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (x1 - x2) + margin)."""
    names = ("input1", "input2", "target")
    input1, input2, target = of_one_shape("margin_ranking_loss", input1, input2, target, names=names, same_ndim=True)
    loss = (margin - target * (input1 - input2)).clamp(min=0)
    return reduced("margin_ranking_loss", loss, reduction_word(size_average, reduce, reduction))


@widens
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where target is 1, max(0, margin - x) where it is -1; both where it is neither."""
    input, target = of_one_shape("hinge_embedding_loss", input, target)
    zero = ops.zeros_like(input)
    loss = ops.where(target != -1, input, zero)
    loss = loss + ops.where(target != 1, (margin - input).clamp(min=0), zero)
    return reduced("hinge_embedding_loss", loss, reduction_word(size_average, reduce, reduction))


@widens
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * x)), of the input's type."""
    input, target = of_one_shape("soft_margin_loss", input, target, as_first=True)
    loss = ops.softplus(-(target * input)).to(input.dtype)
    return reduced("soft_margin_loss", loss, reduction_word(size_average, reduce, reduction))


@widens
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    Source: Balntas et al. 2016 (with `swap`, section 3.3).
    """
    if swap is not False and swap is not True:
        swap = switch("triplet_margin_loss", "swap", swap)
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    for name, other in (("positive", positive), ("negative", negative)):
        of_one_shape("triplet_margin_loss", anchor, other, names=("anchor", name), same_ndim=True)  # the differences below broadcast
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = (near - far + margin).clamp(min=0)
    return reduced("triplet_margin_loss", loss, reduction_word(size_average, reduce, reduction))
