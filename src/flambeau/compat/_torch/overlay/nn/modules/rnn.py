"""`torch.nn.modules.rnn`: a helper of packed sequences that models of their own import."""

from __future__ import annotations

from typing import Any

from flambeau._warn import warn


def _apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    """The tensor with its places along `dim` in another order."""
    warn("apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead", FutureWarning)
    return _apply_permutation(tensor, permutation, dim)
