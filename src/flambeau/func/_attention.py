"""Attention as a composition: the fused op has a gradient, and no second one."""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import ops
from flambeau.func._levels import dtype_of, shape_of


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
        scores = ops.masked_fill(scores, ops.logical_not(attn_mask), -math.inf) if dtype_of(attn_mask) is _C.bool else ops.add(scores, attn_mask)
    return ops.matmul(ops.softmax(scores, -1), v)
