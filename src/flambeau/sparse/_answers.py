"""How functions of sparse tensors are found, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._info import whole_number
from flambeau.sparse._compressed import SparseCompressed, to_compressed
from flambeau.sparse._tensor import SparseCOO, SparseTensor, size_of


def answers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function is called for native ones of these names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        SparseTensor.functions.update(dict.fromkeys(names, function))
        return function

    return register


def coalesced(op: str, x: Any) -> SparseCOO:
    """x by coordinates, coalesced."""
    if not isinstance(x, SparseTensor):
        given = "dense tensor" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{op}: an argument is a {given}; expected a sparse tensor")
    return x.to_coo().coalesce()


def in_layout_of(x: SparseCOO, like: Any) -> SparseTensor:
    """x in the layout of the argument that it came from; by coordinates where that has blocks or a batch, and x another shape."""
    if not isinstance(like, SparseCompressed) or x.shape != like.shape and (like.blocked or like.batch_dim):
        return x
    return to_compressed("sparse", x, like.layout, like.blocksize or None)  # type: ignore[no-any-return]


def wrapped(op: str, x: SparseTensor, dim: Any) -> list[int]:
    given = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    size = size_of(x)
    n = len(size)
    given = [whole_number(op, "dim", d) for d in given]
    for d in given:
        if not -n <= d < n:
            raise IndexError(f"{op}: dim = {d}, but the sparse tensor has shape {list(size)}; expected {-n} <= dim < {n}")
    return sorted({d % n for d in given})


def pairs(rows: Tensor, crow: Tensor) -> tuple[Tensor, Tensor]:
    """For each number in `rows` one pair per element of that row: the number's position, and the element's."""
    begin = ops.index_select(crow, 0, rows)
    counts = ops.index_select(crow, 0, rows + 1) - begin
    mine = ops.repeat_interleave(ops.arange(rows.shape[0]), counts)
    first = ops.cumsum(counts, 0) - counts
    within = ops.arange(mine.shape[0]) - ops.index_select(first, 0, mine)
    return mine, ops.index_select(begin, 0, mine) + within


def rows_of(indices: Tensor, kept: Sequence[int]) -> Tensor:
    rows = indices.unbind(0)
    return ops.stack([rows[d] for d in kept])
