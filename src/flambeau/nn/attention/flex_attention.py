"""`torch.nn.attention.flex_attention`: attention whose scores a function of the user's changes. It is computed with all scores in memory.

`score_mod(score, b, h, q, k)` and `mask_mod(b, h, q, k)` are called once, with index tensors that broadcast against the scores; as in
PyTorch they are to be made of tensor operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau._C import Tensor

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Every query sees every key."""
    return flambeau.ones((), dtype=flambeau.bool)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """What all of them let through."""

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        out = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            out = out & mod(b, h, q, k)
        return out

    return both


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """What one of them lets through."""

    def either(b: Any, h: Any, q: Any, k: Any) -> Any:
        out = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            out = out | mod(b, h, q, k)
        return out

    return either


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What it has returned."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _indices(shape: tuple[int, ...], device: Any) -> list[Tensor]:
    """One int64 tensor for each axis, which broadcast to the shape."""
    return [flambeau.arange(n, device=device).view([-1 if i == axis else 1 for i in range(4)]) for axis, n in enumerate(shape)]


class BlockMask:
    """A mask of [B, H, Q, K], as the function that computes it."""

    def __init__(self, mask_mod: Callable[..., Any], shape: tuple[int, ...], BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE) -> None:  # noqa: N803
        self.mask_mod, self.shape = mask_mod, tuple(shape)
        self.BLOCK_SIZE = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
        self.seq_lengths = self.shape[2:]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """How many places it has."""
        return math.prod(self.shape)

    def dense(self, shape: tuple[int, ...] | None = None, device: Any = None) -> Tensor:
        """The mask as a bool tensor."""
        full = tuple(shape or self.shape)
        return flambeau.broadcast_to(self.mask_mod(*_indices(full, device)), full)  # type: ignore[no-any-return]

    to_dense = dense

    def to(self, device: Any) -> BlockMask:
        """Itself: a function lies on no device."""
        return self


def create_mask(mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu") -> Tensor:  # noqa: N803
    """The mask of a mask_mod as a bool tensor [B, H, Q, K]."""
    return BlockMask(mod_fn, (B or 1, H or 1, Q_LEN, KV_LEN)).dense(device=device)


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:  # noqa: N803
    """A BlockMask of a mask_mod."""
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), BLOCK_SIZE)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(scale query key^T)) value, of [B, H, Q, E], [B, H, K, E] and [B, H, K, V].

    With `return_aux` (or `return_lse`) the logarithms of the sums, too. `kernel_options` tell PyTorch's kernel how to go about it.

    Raises:
        ValueError: query has other heads than key, and `enable_gqa` is False.
    """
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    elif query.shape[1] != key.shape[1]:
        raise ValueError(f"flex_attention: query has {query.shape[1]} heads, key {key.shape[1]}; pass enable_gqa=True")
    scores = (query @ key.transpose(-2, -1)).float() * (query.shape[-1] ** -0.5 if scale is None else scale)
    shape = tuple(scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *_indices(shape, query.device))
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.dense(shape, query.device), -math.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0.0)).exp()
    out = weights.to(value.dtype) @ value
    if return_aux is not None:
        return out, AuxOutput(lse.squeeze(-1) if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (out, lse.squeeze(-1)) if return_lse else out
