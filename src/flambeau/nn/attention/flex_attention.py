"""`torch.nn.attention.flex_attention`: attention whose scores a function of the user's changes. It is computed with all scores in memory.

`score_mod(score, b, h, q, k)` and `mask_mod(b, h, q, k)` are called once, with index tensors that broadcast against the scores; as in
PyTorch they are to be made of tensor operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau._C import Tensor

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]  # names that programs annotate with
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


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
    """A mask of [B, H, Q, K], as the function that computes it; and what PyTorch's kernels read of it, which blocks of it let something
    through and which let all through, computed when asked for.

    `kv_num_blocks` [B, H, rows] says how many blocks of a row are partly open, and `kv_indices` [B, H, rows, columns] has these first;
    `full_kv_num_blocks` and `full_kv_indices` say it of blocks that are all open, and the four with `q` of the columns.

    Example:
        >>> from flambeau.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2)
        >>> mask.to_dense().tolist(), mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist(), mask.sparsity()
        ([[[[1, 0], [1, 1]]]], [[[1, 1]]], [[[0, 1]]], 25.0)
    """

    def __init__(self, mask_mod: Callable[..., Any], shape: tuple[int, ...], BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE) -> None:  # noqa: N803
        self.mask_mod, self.shape = mask_mod, tuple(shape)
        self.BLOCK_SIZE = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
        self.seq_lengths = self.shape[2:]

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None, full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE, mask_mod: Callable[..., Any] | None = None,
        seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """The mask of which these blocks are open: the first by `mask_mod`, the full ones all.

        Raises:
            ValueError: the indices are not [B, H, rows, columns], or one of the full pair is missing.
        """
        if kv_indices.ndim != 4 or kv_num_blocks.shape != kv_indices.shape[:3]:
            shapes = f"kv_num_blocks {list(kv_num_blocks.shape)}, kv_indices {list(kv_indices.shape)}"
            raise ValueError(f"BlockMask.from_kv_blocks: {shapes}; expected [B, H, rows] and [B, H, rows, columns]")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ValueError("BlockMask.from_kv_blocks: one of full_kv_num_blocks and full_kv_indices; expected both, or neither")
        size = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
        partly = _open_blocks(kv_num_blocks, kv_indices)
        wholly = None if full_kv_num_blocks is None else _open_blocks(full_kv_num_blocks, full_kv_indices)
        inner = mask_mod or noop_mask

        def listed(b: Any, h: Any, q: Any, k: Any) -> Any:
            row, column = q // size[0], k // size[1]
            out = partly[b, h, row, column] & inner(b, h, q, k)
            return out if wholly is None else out | wholly[b, h, row, column]

        batch, heads, rows, columns = kv_indices.shape
        made = cls(listed, (batch, heads, *(seq_lengths or (rows * size[0], columns * size[1]))), size)
        made._fl_blocks = partly, flambeau.zeros_like(partly) if wholly is None else wholly
        return made

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

    @functools.cached_property
    def _fl_blocks(self) -> tuple[Tensor, Tensor]:
        """Which blocks are partly open, and which wholly; what lies behind the end is closed."""
        (height, width), (rows, columns) = self.BLOCK_SIZE, self.seq_lengths
        below, beside = -rows % height, -columns % width
        padded = flambeau.nn.functional.pad(self.dense().to(flambeau.int32), (0, beside, 0, below))
        cut = (*self.shape[:2], (rows + below) // height, height, (columns + beside) // width, width)
        many = padded.reshape(cut).sum((3, 5))
        return (many > 0) & (many < height * width), many == height * width

    def to_dense(self) -> Tensor:
        """Which blocks let something through: int32 of [B, H, rows, columns]; `dense()` is the mask itself."""
        partly, wholly = self._fl_blocks
        return (partly | wholly).to(flambeau.int32)  # type: ignore[no-any-return]

    kv_num_blocks = property(lambda self: _counts(self._fl_blocks[0]))
    kv_indices = property(lambda self: _order(self._fl_blocks[0]))
    full_kv_num_blocks = property(lambda self: _counts(self._fl_blocks[1]))
    full_kv_indices = property(lambda self: _order(self._fl_blocks[1]))
    q_num_blocks = property(lambda self: _counts(self._fl_blocks[0].mT))
    q_indices = property(lambda self: _order(self._fl_blocks[0].mT))
    full_q_num_blocks = property(lambda self: _counts(self._fl_blocks[1].mT))
    full_q_indices = property(lambda self: _order(self._fl_blocks[1].mT))

    def sparsity(self) -> float:
        """How many places in a hundred lie in closed blocks."""
        return 100 * (1 - int(self.to_dense().sum()) * math.prod(self.BLOCK_SIZE) / self.numel())

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches and heads; an axis that an integer picks stays, of size 1."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > 2:
            raise IndexError(f"BlockMask: {len(parts)} indices; expected a batch, or a batch and a head")
        kept = [flambeau.arange(n)[part].reshape(-1) for n, part in zip(self.shape[:2], (*parts, slice(None)))]
        batches, heads = kept
        inner = self.mask_mod
        shape = (batches.shape[0], heads.shape[0], *self.seq_lengths)
        return BlockMask(lambda b, h, q, k: inner(batches[b], heads[h], q, k), shape, self.BLOCK_SIZE)

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks of the first `limit` heads, in a grid of at most this size (-1: any): all, some or none are open."""
        open_blocks = self.to_dense().to(flambeau.float32)
        most = (grid_size, grid_size) if isinstance(grid_size, int) else tuple(grid_size)
        lines: list[str] = []
        for at in [(b, h) for b in range(self.shape[0]) for h in range(self.shape[1])][:limit]:
            value = open_blocks[at][None, None]
            grid = [n if m < 0 else min(m, n) for m, n in zip(most, value.shape[2:])]
            shown = flambeau.nn.functional.adaptive_avg_pool2d(value, grid)[0, 0].tolist()
            lines += [str(at), *("".join("██" if v == 1 else "░░" if v else "  " for v in row) for row in shown), ""]
        if math.prod(self.shape[:2]) > limit:
            lines.append("...\nto_string(limit=...) shows more; mask[batch, head] is the mask of one")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()})"

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE}, mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)})"

    def to(self, device: Any) -> BlockMask:
        """Itself: a function lies on no device."""
        return self


def _counts(open_blocks: Tensor) -> Tensor:
    return open_blocks.sum(-1).to(flambeau.int32)  # type: ignore[no-any-return]


def _order(open_blocks: Tensor) -> Tensor:
    """The columns of each row, the open ones first."""
    return open_blocks.to(flambeau.int32).argsort(dim=-1, descending=True, stable=True).to(flambeau.int32)  # type: ignore[no-any-return]


def _open_blocks(counts: Tensor, indices: Any) -> Tensor:
    """Which blocks counts and indices list: bool of the indices' shape."""
    named = flambeau.arange(indices.shape[-1], device=indices.device) < counts.unsqueeze(-1)
    out = flambeau.zeros(indices.shape, dtype=flambeau.int32, device=indices.device)
    return out.scatter_reduce(-1, indices.to(flambeau.int64), named.to(flambeau.int32), "amax") > 0  # type: ignore[no-any-return]


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
