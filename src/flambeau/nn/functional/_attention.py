"""Attention."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain
from flambeau._shapes import broadcast_shapes
from flambeau.nn.functional._dropout import check_p

__all__ = ["scaled_dot_product_attention"]


class _Here(threading.local):
    refused: Sequence[object] = ()  # kernels of PyTorch's, none of which runs here, that `sdpa_kernel` allows alone


here = _Here()


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v (Vaswani et al., NeurIPS 2017, equation 1).

    Without dropout and without a mask that needs a gradient this is one fused op that keeps no T x T matrix.

    Shape:
        query [..., T, D], key [..., S, D], value [..., S, E], mask broadcastable to [..., T, S] -> [..., T, E].

    The mask is bool (what may be looked at), or is added and has the type of the query, or float32. With `is_causal`, position t looks at
    keys 0 to t alone, of those that the mask leaves.
    """
    if here.refused:
        names = ", ".join(map(str, here.refused))
        raise RuntimeError(f"scaled_dot_product_attention: sdpa_kernel allows {names}, of a GPU; expected MATH or FLASH_ATTENTION, too")
    if is_causal is not False and is_causal is not True:
        is_causal = switch("scaled_dot_product_attention", "is_causal", is_causal)
    if enable_gqa is not False and enable_gqa is not True:
        enable_gqa = switch("scaled_dot_product_attention", "enable_gqa", enable_gqa)
    try:
        if attn_mask is not None and attn_mask.dtype is _C.float32 and query.is_floating_point():
            attn_mask = attn_mask.to(query.dtype)
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            repeats = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
        if is_causal and attn_mask is not None:
            later = ops.tril(ops.ones((query.shape[-2], key.shape[-2]), dtype=_C.bool, device=query.device)).logical_not()
            attn_mask = attn_mask.masked_fill(later, False if attn_mask.dtype is _C.bool else float("-inf"))
            is_causal = False
        check_p("scaled_dot_product_attention", dropout_p)
        composed = dropout_p > 0.0 or (attn_mask is not None and attn_mask.requires_grad)
        if not composed:
            try:
                return ops.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale)
            except _C.ShapeError:
                together = _of_equal_leading_axes(query, key, value)
                if together is None:
                    raise
            q, k, v = together
            return ops.scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, scale)
        kept = query.dtype
        if attn_mask is not None and attn_mask.requires_grad and kept.itemsize == 2:  # as the op computes
            query, key, value, attn_mask = query.float(), key.float(), value.float(), attn_mask.float()
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = ops.matmul(query * factor, key.transpose(-2, -1))
        if is_causal:
            keep = ops.tril(ops.ones(scores.shape[-2:], dtype=_C.bool))
            scores = scores.masked_fill(~keep, float("-inf"))
        elif attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype is _C.bool else scores + attn_mask
        return ops.matmul(ops.dropout(ops.softmax(scores, -1), dropout_p, True), value).to(kept)
    except CONFUSED as error:
        explain(error, scaled_dot_product_attention, (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa))
        raise


def _of_equal_leading_axes(*tensors: Tensor) -> list[Tensor] | None:
    """All with the leading axes that they broadcast to, as one head of keys does for several of queries; None where nothing changes."""
    try:
        leading = broadcast_shapes(*(x.shape[:-2] for x in tensors))
    except RuntimeError:
        return None
    if all(x.shape[:-2] == leading for x in tensors):
        return None
    return [x.expand(*leading, *x.shape[-2:]) for x in tensors]
