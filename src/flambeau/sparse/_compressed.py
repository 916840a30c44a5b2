"""The four compressed layouts: by rows (CSR) and columns (CSC), and the same of blocks (BSR, BSC).

All hold three parts. `_starts` says where the values of each row (column) begin, `_plain` in which column (row) each value is. A matrix
of blocks is a matrix whose elements are blocks, as others have elements with dense axes, and a batch has each part once per matrix, with
as many values in all of them. So what is done here is done for all at once: through the coordinates of elements, or of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from flambeau import _C, _tensor
from flambeau._C import Tensor, ops
from flambeau._functions import broadcast_tensors
from flambeau._memory_format import (
    layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from flambeau._no_tensor import wants_tensors
from flambeau._print import parts_text
from flambeau._warn import warn_once
from flambeau.sparse._tensor import SparseCOO, SparseTensor, linear, remade, size_of


class SparseCompressed(SparseTensor):
    """What the compressed layouts have in common."""

    by_columns: ClassVar[bool] = False
    blocked: ClassVar[bool] = False
    _starts: Tensor  # [*batch, rows + 1]
    _plain: Tensor  # [*batch, nnz]
    _val: Tensor  # [*batch, nnz, *block, *dense axes]

    @classmethod
    def make(cls, starts: Tensor, plain: Tensor, values: Tensor, size: Sequence[int]) -> Any:
        """Of parts that fit."""
        kind = repr(cls.layout).rpartition("_")[2].upper()
        warn_once(f"sparse {kind} tensors are in beta state: what they can do, and how it is called, may change")
        x = ops.empty(tuple(size), dtype=values.dtype, device="meta").as_subclass(cls)
        x._starts, x._plain, x._val = starts, plain, values
        return x

    def _with(self, values: Tensor) -> Any:
        held = self._val.ndim - self.dense_dim()
        return type(self).make(self._starts, self._plain, values, (*size_of(self)[: self.batch_dim + 2], *values.shape[held:]))

    # ---- shapes

    @property
    def batch_dim(self) -> int:
        return self._starts.ndim - 1

    @property
    def blocksize(self) -> tuple[int, ...]:
        """Rows and columns of a block; of a layout without blocks nothing."""
        first = self._starts.ndim
        return tuple(self._val.shape[first : first + 2]) if self.blocked else ()

    def dense_dim(self) -> int:
        return self._val.ndim - self._starts.ndim - 2 * self.blocked

    def _nnz(self) -> int:
        return self._plain.shape[-1]

    # ---- parts

    @classmethod
    def index_names(cls) -> tuple[str, str]:
        """What its indices are called."""
        return ("ccol_indices", "row_indices") if cls.by_columns else ("crow_indices", "col_indices")

    def _part(self, name: str) -> Tensor:
        names = self.index_names()
        if name not in names:
            raise RuntimeError(f"{name}: the tensor's layout is {self.layout}, which has {names[0]} and {names[1]}")
        return self._starts if name == names[0] else self._plain

    def crow_indices(self) -> Tensor:
        """Where each row begins among the values, and where the last one ends: [*batch, rows + 1].

        Raises:
            RuntimeError: the layout is one of columns.
        """
        return self._part("crow_indices")

    def col_indices(self) -> Tensor:
        """The column of each value: [*batch, nnz].

        Raises:
            RuntimeError: the layout is one of columns.
        """
        return self._part("col_indices")

    def ccol_indices(self) -> Tensor:
        """Where each column begins among the values, and where the last one ends: [*batch, columns + 1].

        Raises:
            RuntimeError: the layout is one of rows.
        """
        return self._part("ccol_indices")

    def row_indices(self) -> Tensor:
        """The row of each value: [*batch, nnz].

        Raises:
            RuntimeError: the layout is one of rows.
        """
        return self._part("row_indices")

    # ---- other layouts

    def _by_blocks(self) -> SparseCOO:
        """By coordinates of blocks, the values in their order; of a layout without blocks these are the elements."""
        n, (h, w) = self.batch_dim, self.blocksize or (1, 1)
        *batch, rows, columns = size_of(self)[: n + 2]
        counts = (self._starts[..., 1:] - self._starts[..., :-1]).reshape(-1)
        lines = max(self._starts.shape[-1] - 1, 1)
        line = ops.repeat_interleave(ops.arange(counts.shape[0]), counts)
        place = line % lines, self._plain.reshape(-1)
        places = [*unravelled(line // lines, batch), *(place[::-1] if self.by_columns else place)]
        values = self._val.reshape(self._plain.numel(), *self._val.shape[n + 1 :])
        return SparseCOO.make(ops.stack(places), values, (*batch, rows // h, columns // w, *values.shape[1:]))

    def to_coo(self) -> SparseCOO:
        blocks = self._by_blocks().coalesce()  # columns may be in any order within a row
        if not self.blocked:
            return blocks
        n, (h, w) = self.batch_dim, self.blocksize
        *batch, row, column = (part.reshape(-1, 1, 1) for part in blocks._idx.unbind(0))
        places = broadcast_tensors(
            *batch, row * h + ops.arange(h).unsqueeze(-1), column * w + ops.arange(w), ops.zeros((1, h, w), dtype=_C.int64)
        )[:-1]
        values = blocks._val.reshape(-1, *blocks._val.shape[3:])
        return SparseCOO.make(ops.stack(places).reshape(n + 2, -1), values, size_of(self)).coalesce()

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.batch_dim or self.dense_dim():
            given = f"{self.batch_dim} axes of a batch and {self.dense_dim()} dense ones"
            raise _C.ShapeError(f"sparse.mm: the sparse tensor has {given}; expected a matrix, with 0 and 0")
        if self.blocked:
            return self.to_coo().rows()
        if not self.by_columns:
            return self._starts, self._plain, self._val
        starts, columns, elements = ops.sparse_transpose(self._starts, self._plain, size_of(self)[0])
        return starts, columns, ops.index_select(self._val, 0, elements)

    def transposed(self) -> SparseCompressed:
        """With the axes of its matrices exchanged: the same parts, taken for those of the other kind."""
        n = self.batch_dim
        *batch, rows, columns = size_of(self)[: n + 2]
        values = self._val.transpose(n + 1, n + 2) if self.blocked else self._val
        size = (*batch, columns, rows, *size_of(self)[n + 2 :])
        return _TRANSPOSED[type(self)].make(self._starts, self._plain, values, size)  # type: ignore[no-any-return]

    def of_batch(self, dim: int, index: int) -> SparseCompressed:
        """One of the matrices along an axis of the batch."""
        size = [n for d, n in enumerate(size_of(self)) if d != dim]
        starts, plain, values = (ops.select(part, dim, index) for part in (self._starts, self._plain, self._val))
        return type(self).make(starts, plain, values, size)  # type: ignore[no-any-return]

    def at(self, dense: Tensor) -> Tensor:
        """The elements of a dense tensor of this shape where this one has values, in the shape of the values."""
        inner = in_blocks(dense, self.blocksize, self.batch_dim) if self.blocked else dense
        return ops.index(inner, list(self._by_blocks()._idx.unbind(0))).reshape(self._val.shape)

    def emptied(self, size: Sequence[int], dtype: Any) -> SparseCompressed:
        """Without places, of a size with as many axes."""
        n = self.batch_dim
        lines = size[n + self.by_columns] // (self.blocksize[self.by_columns] if self.blocked else 1)
        starts = ops.zeros((*size[:n], lines + 1), dtype=_C.int64)
        values = ops.zeros((*size[:n], 0, *self.blocksize, *size[n + 2 :]), dtype=dtype, device=self._val.device)
        return type(self).make(starts, ops.zeros((*size[:n], 0), dtype=_C.int64), values, size)  # type: ignore[no-any-return]

    def become(self, other: SparseCompressed, values: Tensor) -> None:
        """From now on this tensor has the places of another one of its layout, and these values."""
        self._starts, self._plain, self._val = other._starts, other._plain, values
        _C.graph.objects_changed()  # programs read the parts of before

    def turn_into(self, other: Any) -> None:
        super().turn_into(other)
        self.become(other, other._val)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return remade, (type(self), (self._starts, self._plain, self._val.detach(), tuple(self.shape)), self.requires_grad)

    def parts(self) -> dict[str, Tensor]:
        return dict(zip(self.index_names(), (self._starts, self._plain))) | {"values": self._val}

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return parts_text(self.parts(), self._footer(), False, tensor_contents)


class SparseCSR(SparseCompressed):
    """Compressed rows: row r has the values crow[r] ... crow[r + 1] - 1, in the columns col."""

    layout = sparse_csr


class SparseCSC(SparseCompressed):
    """Compressed columns: column c has the values ccol[c] ... ccol[c + 1] - 1, in the rows row."""

    layout = sparse_csc
    by_columns = True


class SparseBSR(SparseCompressed):
    """Compressed rows of blocks."""

    layout = sparse_bsr
    blocked = True


class SparseBSC(SparseCompressed):
    """Compressed columns of blocks."""

    layout = sparse_bsc
    by_columns = blocked = True


KINDS: dict[layout, type[SparseCompressed]] = {kind.layout: kind for kind in (SparseCSR, SparseCSC, SparseBSR, SparseBSC)}
_TRANSPOSED = {SparseCSR: SparseCSC, SparseCSC: SparseCSR, SparseBSR: SparseBSC, SparseBSC: SparseBSR}


def unravelled(keys: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The places along each axis of what `linear` numbered."""
    found = []
    for n in reversed(sizes):
        found.append(keys % max(n, 1))
        keys = keys // max(n, 1)
    return found[::-1]


def in_blocks(x: Tensor, blocksize: Sequence[int], first: int) -> Tensor:
    """[..., m, n, ...] -> [..., m / h, n / w, h, w, ...], where m is axis `first`."""
    (h, w), (m, n) = blocksize, x.shape[first : first + 2]
    return x.reshape(*x.shape[:first], m // h, h, n // w, w, *x.shape[first + 2 :]).transpose(first + 1, first + 2)


def _grouped(coo: SparseCOO, blocksize: Sequence[int]) -> SparseCOO:
    """By coordinates of blocks that have an element with a place; the others in them are 0."""
    h, w = blocksize
    *batch, row, column = coo._idx.unbind(0)
    size = [*coo.shape[: len(batch)], coo.shape[len(batch)] // h, coo.shape[len(batch) + 1] // w]
    blocks, of, _ = ops.unique_sorted(linear(ops.stack([*batch, row // h, column // w]), size), True)
    empty = ops.zeros((blocks.shape[0], h, w, *coo._val.shape[1:]), dtype=coo._val.dtype, device=coo._val.device)
    values = ops.index_put(empty, [of, row % h, column % w], coo._val, False)
    return SparseCOO.make(ops.stack(unravelled(blocks, size)), values, (*size, *values.shape[1:]), True)


def _compressed(op: str, coo: SparseCOO, kind: type[SparseCompressed], size: Sequence[int]) -> Any:
    """Coalesced coordinates, of blocks where the kind has these, in a compressed layout."""
    n = coo.sparse_dim() - 2
    *batch, row, column = coo._idx.unbind(0)
    sizes, values = coo.shape[:n], coo._val
    line, plain, lines = (column, row, coo.shape[n + 1]) if kind.by_columns else (row, column, coo.shape[n])
    if batch:
        line = linear(ops.stack(batch), sizes) * lines + line
    if kind.by_columns:
        order = ops.argsort(line, 0, False, True)
        line, plain, values = (ops.index_select(part, 0, order) for part in (line, plain, values))
    count = math.prod(sizes)
    starts = ops.sparse_compress(line, count * lines)
    if n:
        each = line.shape[0] // max(count, 1)
        begin = ops.arange(count).unsqueeze(-1) * each
        ends = starts[lines::lines].unsqueeze(-1) if lines and count else begin
        if bool((ends != begin + each).any().item()):
            given = "the matrices of a batch have different numbers of elements"
            raise _C.ShapeError(f"{op}: {given}; expected the same number of specified elements per batch")
        starts = (ops.cat([starts[: count * lines].reshape(count, lines), ends], 1) - begin).reshape(*sizes, lines + 1)
        plain, values = plain.reshape(*sizes, each), values.reshape(*sizes, each, *values.shape[1:])
    return kind.make(starts, plain, values, size)


def to_compressed(op: str, x: Tensor, kind: layout, blocksize: Any = None, dense_dim: int | None = None) -> Any:
    """A tensor, dense or sparse, in a compressed layout: of a dense one what is not 0, of a sparse one what has a place, with gradients.

    Raises:
        ShapeError: it has no matrices, blocks do not fill them, or those of a batch have different numbers of elements.
        ArgumentError: blocks without a size, or a size without blocks.
    """
    from flambeau.sparse._construct import to_sparse

    made, sparse = KINDS[kind], isinstance(x, SparseTensor)
    block = () if blocksize is None else tuple(int(b) for b in blocksize)
    if isinstance(x, made) and block in ((), x.blocksize) and dense_dim in (None, x.dense_dim()):
        return x
    if made.blocked != (len(block) == 2 and min(block) > 0):
        raise _C.ArgumentError(f"{op}: blocksize = {blocksize!r}; expected {'two numbers, rows and columns' if made.blocked else 'None'}")
    dense = dense_dim if dense_dim is not None else x.dense_dim() if sparse else 0
    size = size_of(x) if isinstance(x, SparseTensor) else x.shape
    first = len(size) - dense - 2
    if first < 0 or dense < 0:
        raise _C.ShapeError(f"{op}: the tensor has shape {list(size)}, dense_dim = {dense_dim}; expected a matrix")
    if block and (size[first] % block[0] or size[first + 1] % block[1]):
        given = f"the tensor has shape {list(size)}, blocksize = {list(block)}"
        raise _C.ShapeError(f"{op}: {given}; expected blocks that fill its matrices")
    if isinstance(x, SparseTensor):
        coo = x.to_coo().to_sparse(first + 2).coalesce()
        return _compressed(op, _grouped(coo, block) if block else coo, made, size)
    return _compressed(op, to_sparse(in_blocks(x, block, first) if block else x, first + 2), made, size)


@wants_tensors
def to_sparse_csr(x: Tensor, dense_dim: int | None = None) -> SparseCSR:
    """This tensor by compressed rows: of a dense one the elements that are not 0. Axes before the last two (and dense ones) are a batch.

    Args:
        dense_dim: how many axes at the end are whole in each value.

    Raises:
        ShapeError: it has no matrices, or those of a batch have different numbers of elements.

    Example:
        >>> import flambeau as fl
        >>> fl.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr().crow_indices()
        tensor([0, 1, 3])
    """
    return to_compressed("to_sparse_csr", x, sparse_csr, None, dense_dim)  # type: ignore[no-any-return]


@wants_tensors
def to_sparse_csc(x: Tensor, dense_dim: int | None = None) -> SparseCSC:
    """This tensor by compressed columns: of a dense one the elements that are not 0. Axes before the last two (and dense ones) are a batch.

    Args:
        dense_dim: how many axes at the end are whole in each value.

    Raises:
        ShapeError: it has no matrices, or those of a batch have different numbers of elements.

    Example:
        >>> import flambeau as fl
        >>> fl.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csc().values()
        tensor([3., 2., 4.])
    """
    return to_compressed("to_sparse_csc", x, sparse_csc, None, dense_dim)  # type: ignore[no-any-return]


@wants_tensors
def to_sparse_bsr(x: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> SparseBSR:
    """This tensor by compressed rows of blocks: of a dense one the blocks that are not all 0.

    Args:
        blocksize: rows and columns of a block, which fill the matrix.
        dense_dim: how many axes at the end are whole in each value.

    Raises:
        ShapeError: it has no matrices, blocks do not fill them, or those of a batch have different numbers of blocks.

    Example:
        >>> import flambeau as fl
        >>> fl.eye(4).to_sparse_bsr((2, 2)).values()[0]
        tensor([[1., 0.],
                [0., 1.]])
    """
    return to_compressed("to_sparse_bsr", x, sparse_bsr, blocksize, dense_dim)  # type: ignore[no-any-return]


@wants_tensors
def to_sparse_bsc(x: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> SparseBSC:
    """This tensor by compressed columns of blocks: `to_sparse_bsr`, with the blocks of a column together.

    Args:
        blocksize: rows and columns of a block, which fill the matrix.
        dense_dim: how many axes at the end are whole in each value.

    Raises:
        ShapeError: it has no matrices, blocks do not fill them, or those of a batch have different numbers of blocks.
    """
    return to_compressed("to_sparse_bsc", x, sparse_bsc, blocksize, dense_dim)  # type: ignore[no-any-return]


def known_layout(op: str, kind: Any) -> layout | None:
    """None for coordinates, else a compressed layout."""
    if kind is None or kind is sparse_coo:
        return None
    if not isinstance(kind, layout) or kind not in KINDS:
        names = ", ".join(repr(known) for known in KINDS)
        raise ValueError(f"{op}: layout = {kind!r}; expected None, {_tensor.library}.sparse_coo or one of {names}")
    return kind
