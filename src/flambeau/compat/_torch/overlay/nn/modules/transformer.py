"""Helpers of `torch.nn.modules.transformer` that transformers of packages are made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.nn.containers import ModuleList
from flambeau.nn.module import Module
from flambeau.nn.modules.transformer import _activation, _clones, _is_causal, _length

__all__: list[str] = []


def _get_clones(module: Module, N: int) -> ModuleList:
    """N copies of a module."""
    return _clones(module, N)


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """The function of a name, "relu" or "gelu"."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return _activation(activation)


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """-inf above the diagonal, and zeros.

    Shape: [sz, sz].
    """
    return ops.triu(ops.full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    """The length of a sequence [L, E], or of a batch of them; None of a nested one."""
    return _length(src, batch_first)


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether a mask hides what comes later and nothing else, unless `is_causal` says it."""
    return _is_causal(mask, is_causal, size if size is not None or mask is None else mask.size(-2))  # type: ignore[arg-type]
