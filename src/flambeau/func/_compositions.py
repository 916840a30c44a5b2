"""Fused ops as compositions: forward mode differentiates a backward, and these have backwards for which that ends too soon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import ops
from flambeau._info import finfo
from flambeau.autograd.modes import no_grad
from flambeau.func._levels import Wrapped, dtype_of, shape_of


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None
) -> Any:
    """`scaled_dot_product_attention` by ops that can be differentiated any number of times; NotImplemented with dropout."""
    if dropout_p != 0.0:
        return NotImplemented
    factor = 1.0 / math.sqrt(shape_of(q)[-1]) if scale is None else scale
    scores = ops.mul(ops.matmul(q, ops.transpose(k, -2, -1)), factor)
    if is_causal:
        rows, columns = shape_of(scores)[-2:]
        hidden = ops.triu(ops.ones((rows, columns), dtype=_C.bool), 1)
        scores = ops.masked_fill(scores, hidden, -math.inf)
    if attn_mask is not None:
        is_bool = dtype_of(attn_mask) is _C.bool
        scores = ops.masked_fill(scores, ops.logical_not(attn_mask), -math.inf) if is_bool else ops.add(scores, attn_mask)
    return ops.matmul(ops.softmax(scores, -1), v)


def _without_tangents(x: Any) -> Any:
    while isinstance(x, Wrapped) and x._level.size is None:
        x = x._parts()[0]
    return x


def typed(y: Any, x: Any) -> Any:
    """y in the element type of x, which fused ops have however wide their weights are."""
    return y if dtype_of(y) is dtype_of(x) else ops.cast(y, dtype_of(x))


def affine(y: Any, weight: Any, bias: Any, axes: tuple[int, ...] | None = None) -> Any:
    """y * weight + bias, of which the axes are given another shape first."""
    for part, op in ((weight, ops.mul), (bias, ops.add)):
        if part is not None:
            y = op(y, part if axes is None else ops.reshape(part, axes))
    return y


def _normal(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    """x with mean 0 and variance 1 over axes."""
    centred = ops.sub(x, ops.mean(x, axes, True))
    return ops.mul(centred, ops.rsqrt(ops.add(ops.mean(ops.square(centred), axes, True), eps)))


def _layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return typed(affine(_normal(x, _last_axes(normalized_shape), eps), weight, bias), x)


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    small = finfo(dtype_of(x)).eps if eps is None else eps
    size = ops.rsqrt(ops.add(ops.mean(ops.square(x), _last_axes(normalized_shape), True), small))
    return typed(affine(ops.mul(x, size), weight, None), x)


def _last_axes(normalized_shape: Any) -> tuple[int, ...]:
    return tuple(range(-1 if hasattr(normalized_shape, "__index__") else -len(normalized_shape), 0))


def _group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    shape = shape_of(x)
    if len(shape) < 2 or shape[1] % num_groups:
        return NotImplemented  # the op's own error
    grouped = ops.reshape(x, (shape[0], num_groups, math.prod(shape[1:]) // num_groups))
    return typed(affine(ops.reshape(_normal(grouped, (2,), eps), shape), weight, bias, _by_channel(x)), x)


def _instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(2, len(shape_of(x))))
    return typed(affine(_normal(x, axes, eps), weight, bias, _by_channel(x)), x) if axes else NotImplemented


def _by_channel(x: Any) -> tuple[int, ...]:
    return (-1, *(1,) * (len(shape_of(x)) - 2))


def _batch_norm(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    if len(shape_of(x)) < 2:
        return NotImplemented
    channels = _by_channel(x)
    if training or running_mean is None:
        if training and running_mean is not None:
            with no_grad():  # the statistics are state, which has no tangent
                mean, var = _without_tangents(running_mean), _without_tangents(running_var)
                ops.batch_norm(_without_tangents(x), mean, var, None, None, True, momentum, eps)
        y = _normal(x, (0, *range(2, len(shape_of(x)))), eps)
    else:
        scale = ops.rsqrt(ops.add(running_var, eps))
        y = ops.mul(ops.sub(x, ops.reshape(running_mean, channels)), ops.reshape(scale, channels))
    return typed(affine(y, weight, bias, channels), x)


def _cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0, dtype: Any = None
) -> Any:
    axis = 0 if len(shape_of(x)) == 1 else 1
    scores = ops.log_softmax(x, axis) if dtype is None else ops.log_softmax(x, axis, dtype=dtype)
    classes = shape_of(x)[axis]
    weights = None if weight is None else ops.reshape(weight, (-1, *(1,) * (len(shape_of(x)) - axis - 1)))
    if dtype_of(target).is_floating_point:
        wanted = ops.add(ops.mul(target, 1 - label_smoothing), label_smoothing / classes)
        loss = ops.neg(ops.sum(affine(ops.mul(scores, wanted), weights, None), (axis,)))
        return typed(_reduced(loss, reduction, math.prod(shape_of(loss))), scores)
    loss, share, counted = _of_classes(scores, target, weight, ignore_index)
    if label_smoothing:
        everywhere = ops.where(counted, ops.neg(ops.sum(affine(scores, weights, None), (axis,))), 0.0)
        loss = ops.add(ops.mul(loss, 1 - label_smoothing), ops.mul(everywhere, label_smoothing / classes))
    return typed(_reduced(loss, reduction, ops.sum(share)), scores)


def _nll_loss(x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    if weight is None:
        return NotImplemented
    loss, share, _ = _of_classes(x, target, weight, ignore_index)
    return typed(_reduced(loss, reduction, ops.sum(share)), x)


def _of_classes(scores: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """The loss of each target, how much it counts, and which count at all."""
    axis = 0 if len(shape_of(scores)) == 1 else 1
    counted = ops.ne(target, ignore_index)
    at = ops.where(counted, target, 0)
    share = counted.to(dtype_of(scores))
    if weight is not None:
        share = ops.mul(share, ops.reshape(ops.index_select(weight, 0, ops.reshape(at, (-1,))), shape_of(at)))
    picked = ops.squeeze(ops.gather(scores, axis, ops.unsqueeze(at, axis)), (axis,))
    return ops.neg(ops.mul(picked, share)), share, counted


def _binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    if weight is None:
        return NotImplemented
    return _reduced(ops.mul(ops.binary_cross_entropy(x, target, None, 0), weight), reduction, math.prod(shape_of(x)))


def _binary_cross_entropy_with_logits(x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0) -> Any:
    if weight is None and pos_weight is None:
        return NotImplemented
    if pos_weight is None:
        loss = ops.binary_cross_entropy_with_logits(x, target)
    else:
        more = ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1)
        loss = ops.add(ops.mul(ops.sub(1, target), x), ops.mul(more, ops.softplus(ops.neg(x))))
    return _reduced(loss if weight is None else ops.mul(loss, weight), reduction, math.prod(shape_of(x)))


def _reduced(loss: Any, reduction: int, count: Any) -> Any:
    return loss if reduction == 0 else ops.sum(loss) if reduction == 2 else ops.div(ops.sum(loss), count)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "batch_norm": _batch_norm,
    "binary_cross_entropy": _binary_cross_entropy,
    "binary_cross_entropy_with_logits": _binary_cross_entropy_with_logits,
    "cross_entropy": _cross_entropy,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "nll_loss": _nll_loss,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": attention,
}
