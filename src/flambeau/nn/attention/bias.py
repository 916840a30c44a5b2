"""`torch.nn.attention.bias`: causal masks of scores that are not square, as tensors that attention takes."""

from __future__ import annotations

import enum
from typing import Any

from flambeau import bool as _bool
from flambeau import ones
from flambeau._C import Tensor, no_torch_function

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of the scores the diagonal goes through."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The mask of a variant: True where a query (row) sees a key (column). What is computed with it is a plain tensor."""

    __torch_function__ = no_torch_function
    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        diagonal = 0 if variant == CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        self: Any = ones(seq_len_q, seq_len_kv, dtype=_bool).tril(diagonal).as_subclass(cls)
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        return self  # type: ignore[no-any-return]

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"CausalBias: variant = {variant!r}; expected a CausalVariant")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self.as_subclass(Tensor))


def causal_upper_left(*size: int) -> CausalBias:
    """The mask whose diagonal begins in the upper left corner of scores [queries, keys]: that of `is_causal=True`."""
    return _made("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask whose diagonal ends in the lower right corner of scores [queries, keys]: of queries that continue a sequence."""
    return _made("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _made(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise RuntimeError(f"{name}: got {len(size)} sizes; expected two, of queries and keys")
    return CausalBias(variant, *size)
