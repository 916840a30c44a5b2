"""Unique elements. Each NaN counts as one of its own."""

from __future__ import annotations

from typing import NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements in ascending order, where each is first, which one each element is, and how many there are of each.

    Shape:
        values, indices, counts [u]; inverse_indices as x

    Example:
        >>> import flambeau as fl
        >>> fl.array_api.unique_all(fl.tensor([3, 1, 3])).counts
        tensor([1, 2])
    """
    flat = x.reshape(-1)
    order = _order(flat)
    ranked = ops.index_select(flat, 0, order)
    n = ranked.shape[0]
    new = ops.ones((n,), dtype=_C.bool, device=x.device)
    if n > 1:
        late, early = ranked[1:], ranked[:-1]
        new = ops.cat([new[:1], late != early])
    group = ops.cumsum(new.to(_C.int64), 0) - 1
    starts = ops.nonzero(new).reshape(-1)
    counts = ops.cat([starts[1:], ops.full((1,), n, dtype=_C.int64, device=x.device)]) - starts if n else starts
    inverse = ops.scatter(ops.zeros((n,), dtype=_C.int64, device=x.device), 0, order, group).reshape(x.shape)
    return UniqueAll(ops.index_select(ranked, 0, starts), ops.index_select(order, 0, starts), inverse, counts)


def _order(flat: Tensor) -> Tensor:
    """Positions in ascending order, equals in their order; complex numbers by their real parts, then by their imaginary ones."""
    if not flat.is_complex():
        return ops.argsort(flat, 0, False, True)
    by_imag = ops.argsort(flat.imag, 0, False, True)
    order = ops.index_select(by_imag, 0, ops.argsort(ops.index_select(flat.real, 0, by_imag), 0, False, True))
    last = ops.index_select((flat != flat).to(_C.int64), 0, order)  # NaN in either part
    return ops.index_select(order, 0, ops.argsort(last, 0, False, True))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how many there are of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and which one each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values
