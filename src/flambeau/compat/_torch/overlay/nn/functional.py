"""Helpers of `torch.nn.functional` that layers of packages call."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import _C as _core
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.nn import _reduction as _Reduction
from flambeau.nn.functional import linear
from flambeau.nn.modules.utils import _pair, _single, _triple

__all__: list[str] = []
_private = (_Reduction, _pair, _single, _triple)  # which programs take from here


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


def _canonical_mask(mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True) -> Tensor | None:
    """A mask as numbers to add: -inf where a bool one is True."""
    if mask is None:
        return None
    if mask.dtype is not _core.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.", stacklevel=2)
    if mask.is_floating_point():
        return mask
    return _core.ops.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))  # type: ignore[no-any-return]


def _none_or_dtype(input: Tensor | None) -> Any:  # noqa: A002
    """A tensor's type; None of None."""
    if input is None or isinstance(input, Tensor):
        return None if input is None else input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
