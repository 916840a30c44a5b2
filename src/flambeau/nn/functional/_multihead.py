"""Multi-head attention of given weights, as `MultiheadAttention` computes it."""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops
from flambeau._errors import AssertedArgumentError, AssertedTypeError
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.amp.autocast_mode import _cast

__all__ = ["multi_head_attention_forward"]


def _none_or_dtype(input: Tensor | None) -> Any:
    """A tensor's type; None of None."""
    if input is None or isinstance(input, Tensor):
        return None if input is None else input.dtype
    raise RuntimeError(f"input to _none_or_dtype() must be None or Tensor, got a {type(input).__name__}")


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask to add to scores: of bools, -inf where it is True. Warns where the other mask, if there is one, is of another type."""
    if mask is None:
        return None
    if mask.dtype is not _C.bool and not mask.is_floating_point():
        raise AssertedTypeError(f"only bool and floating types of {mask_name} are supported, it is {mask.dtype}; expected bool or float")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.is_floating_point():
        return mask
    return ops.zeros(mask.shape, dtype=target_type, device=mask.device).masked_fill(mask, -math.inf)  # type: ignore[no-any-return]


@wants_tensors
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in `num_heads` subspaces with projections around (Vaswani et al., NeurIPS 2017, section 3.2).

    Args:
        in_proj_weight: [3 E, E]; with `use_separate_proj_weight` the three others instead.
        bias_k, bias_v: [1, 1, E], one more key and value.
        static_k, static_v: [N heads, S, E / heads], instead of projected keys and values.
        key_padding_mask: [N, S]; attn_mask: [L, S] or [N heads, L, S]. True, or -inf, is not looked at.

    Shape: query [L, N, E], key [S, N, E], value [S, N, E], or all without N -> [L, N, E] and weights [N, L, S], or
        [N, heads, L, S] without `average_attn_weights`; None without `need_weights`.

    Raises:
        ShapeError, ValueError: sizes that do not fit, or `is_causal` without a mask.
    """
    op, batched = "multi_head_attention_forward", query.ndim == 3
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ShapeError(f"{op}: query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}; expected all 2-D or 3-D")
    if is_causal and attn_mask is None:
        raise _C.ArgumentError(f"{op}: is_causal=True is a hint and needs the mask itself in attn_mask")
    if query.shape[-1] != embed_dim_to_check:
        raise ShapeError(f"{op}: query has {query.shape[-1]} features; expected {embed_dim_to_check}")
    if (bias_k is None) != (bias_v is None):
        raise AssertedArgumentError(f"{op}: only one of bias_k and bias_v is given; expected both or none")
    if num_heads < 1 or embed_dim_to_check % num_heads:
        raise _C.ArgumentError(f"{op}: {embed_dim_to_check} features do not divide by num_heads = {num_heads}")
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    if key.shape[:2] != value.shape[:2]:
        raise ShapeError(f"{op}: key has shape {list(key.shape)}, value {list(value.shape)}; expected as many positions and batches")
    weights = _weights(op, use_separate_proj_weight, in_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight))
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))  # [L, N, E]
    more = int(bias_k is not None and bias_v is not None) + int(add_zero_attn)
    n, length, heads = q.shape[1], q.shape[0], num_heads
    if bias_k is not None and bias_v is not None:
        k, v = ops.cat([k, bias_k.expand(1, n, -1)]), ops.cat([v, bias_v.expand(1, n, -1)])
    q, k, v = (x.reshape(x.shape[0], n, heads, -1).permute(1, 2, 0, 3) for x in (q, k, v))  # [N, heads, L, D]
    k = k if static_k is None else static_k.reshape(n, heads, *static_k.shape[1:])
    v = v if static_v is None else static_v.reshape(n, heads, *static_v.shape[1:])
    if add_zero_attn:
        k, v = (ops.cat([x, x.new_zeros((n, heads, 1, x.shape[-1]))], 2) for x in (k, v))
    scores = ops.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-2, -1))
    scores = _masked(op, scores, attn_mask, key_padding_mask, more)
    attention = ops.dropout(ops.softmax(scores, -1), dropout_p, training)
    out = ops.matmul(attention, v).permute(2, 0, 1, 3).reshape(length, n, -1)
    out = ops.linear(out, out_proj_weight, out_proj_bias)
    seen = (attention.mean(1) if average_attn_weights else attention) if need_weights else None
    if batched:
        return out, seen
    return out.squeeze(1), None if seen is None else seen.squeeze(0)


def _weights(op: str, separate: bool, whole: Tensor | None, parts: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    given = parts if separate else (whole,)
    if any(w is None for w in given):
        raise _C.ArgumentError(f"{op}: a weight is None; expected {'q_, k_ and v_proj_weight' if separate else 'in_proj_weight'}")
    return tuple(w for w in parts if w is not None) if separate else tuple(whole.chunk(3))  # type: ignore[union-attr]


def _masked(op: str, scores: Tensor, attn_mask: Tensor | None, padding: Tensor | None, more: int) -> Tensor:
    """Scores [N, heads, L, S] with what is not looked at at -inf; the last `more` positions always are."""
    n, heads, length, s = scores.shape
    padding = _canonical_mask(padding, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", scores.dtype)
    mask = _canonical_mask(attn_mask, "attn_mask", None, "", scores.dtype)
    if _C.is_autocast_enabled():  # scores are a product's, and masks are added in its type
        mask, padding = _cast((mask, padding), scores.dtype)
    if mask is not None:
        if tuple(mask.shape) not in ((length, s - more), (n * heads, length, s - more)):
            raise ShapeError(
                f"{op}: attn_mask has shape {list(mask.shape)}; expected {[length, s - more]} or {[n * heads, length, s - more]}"
            )
        mask = ops.pad(mask, (0, more), "constant", 0)
        scores = scores + (mask if mask.ndim == 2 else mask.reshape(n, heads, length, s))
    if padding is not None:
        if tuple(padding.shape) != (n, s - more):
            raise ShapeError(f"{op}: key_padding_mask has shape {list(padding.shape)}; expected {[n, s - more]}")
        mask = ops.pad(padding, (0, more), "constant", 0)
        scores = scores + mask.reshape(n, 1, 1, s)
    return scores
