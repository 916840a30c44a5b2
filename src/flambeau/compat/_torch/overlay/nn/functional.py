"""Helpers of `torch.nn.functional` that layers of packages call."""

from __future__ import annotations

import warnings

from flambeau._C import Tensor
from flambeau._older import _BEYOND, _SAMPLING, conv_tbc
from flambeau.compat._torch.overlay._jit_internal import boolean_dispatch
from flambeau.compat._torch.overlay.nn import _reduction as _Reduction
from flambeau.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3
from flambeau.nn import grad
from flambeau.nn.functional import linear
from flambeau.nn.functional._multihead import _canonical_mask, _none_or_dtype
from flambeau.nn.modules.utils import _pair, _single, _triple
from flambeau.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

__all__: list[str] = []
_private = (  # which programs take from here
    _Reduction, _canonical_mask, _none_or_dtype, _pair, _single, _triple, BroadcastingList1, BroadcastingList2, BroadcastingList3,
    boolean_dispatch, conv_tbc, grad, handle_torch_function, has_torch_function, has_torch_function_unary, has_torch_function_variadic,
)  # fmt: skip

GRID_SAMPLE_INTERPOLATION_MODES = {mode: i for i, mode in enumerate(_SAMPLING)}
GRID_SAMPLE_PADDING_MODES = {mode: i for i, mode in enumerate(_BEYOND)}


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The axis that a softmax without one meant: the first of 0, 1 or 3 axes, the second of others."""
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.", stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value by one weight; as few products as the inputs that are the same tensor allow.

    Shape: q, k and v [..., E], w [3 E, E], b [3 E], results as the inputs.
    """
    E = q.size(-1)
    if q is k and k is v:
        return tuple(linear(q, w, b).unflatten(-1, (3, E)).movedim(-2, 0).contiguous())  # type: ignore[return-value]
    if k is v:
        keys, values = linear(k, w[E:], None if b is None else b[E:]).unflatten(-1, (2, E)).movedim(-2, 0).contiguous()
        return linear(q, w[:E], None if b is None else b[:E]), keys, values
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), w.chunk(3), biases))  # type: ignore[return-value]


def _in_projection(q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, b_q: Tensor | None = None, b_k: Tensor | None = None,
                   b_v: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Query, key and value by a weight each, whose input sizes may differ.

    Shape: q [..., Eq], w_q [Eq, Eq], w_k [Eq, Ek], w_v [Eq, Ev], results [..., Eq].
    """
    E = q.size(-1)
    for name, weight, x in (("query", w_q, q), ("key", w_k, k), ("value", w_v, v)):
        if tuple(weight.shape) != (E, x.size(-1)):
            raise AssertionError(f"expecting {name} weights shape of {(E, x.size(-1))}, but got {weight.shape}")
    for name, bias in (("query", b_q), ("key", b_k), ("value", b_v)):
        if bias is not None and tuple(bias.shape) != (E,):
            raise AssertionError(f"expecting {name} bias shape of {(E,)}, but got {bias.shape}")
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _mha_shape_check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int) -> bool:
    """Whether attention's inputs are a batch; raises where they do not fit together.

    Shape: query, key and value [L, N, E] or [L, E]; key_padding_mask [N, S] or [S]; attn_mask [L, S], or [N H, L, S] and [H, L, S].
    """
    axes = query.dim()
    if axes not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {axes}-D query tensor")
    what = f"For {'batched (3-D)' if axes == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != axes or value.dim() != axes:
        raise AssertionError(f"{what} `key` and `value` to be {axes}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != axes - 1:
        raise AssertionError(f"{what} `key_padding_mask` to be `None` or {axes - 1}-D but found {key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead")
    if axes == 2 and attn_mask is not None and attn_mask.dim() == 3:
        wanted = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {tuple(attn_mask.shape)}")
    return axes == 3
