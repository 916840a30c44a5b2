"""Sparse tensors from indices and values, and of dense ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from flambeau import _C, _tensor
from flambeau._C import Tensor, ops
from flambeau._from_data import as_tensor
from flambeau._memory_format import sparse_coo, sparse_csr
from flambeau._no_tensor import wants_tensors
from flambeau.sparse._compressed import (
    KINDS,
    SparseBSC,
    SparseBSR,
    SparseCompressed,
    SparseCSC,
    SparseCSR,
    known_layout,
    to_compressed,
)
from flambeau.sparse._invariants import check_columns, check_places
from flambeau.sparse._tensor import SparseCOO, SparseTensor, linear


def _index_part(op: str, name: str, data: Any, ndim: int) -> Tensor:
    x = as_tensor(data)
    if x.numel() == 0 and x.ndim == ndim:
        x = x.to(_C.int64)
    if x.is_complex() or x.ndim != ndim:
        raise _C.DTypeError(f"{op}: {name} are {x.dtype} of shape {list(x.shape)}; expected integers with {ndim} axes")
    if x.is_floating_point() and bool((x != x.floor()).any()):
        raise _C.DTypeError(f"{op}: {name} are {x.dtype}, and one of them is no whole number; expected integers: round them first")
    return x.detach().to(_C.int64)


def _value_part(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    x = as_tensor(values, dtype=dtype, device=device)
    if requires_grad:  # a leaf of its own
        return x.detach().clone().requires_grad_()
    return x


@wants_tensors
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseCOO:
    """A sparse tensor with values[k] at the place indices[:, k]; what stands at one place several times is added up.

    Of a size alone, `sparse_coo_tensor(size)` or `sparse_coo_tensor(size=size)`, one without values.

    Args:
        size: by default the smallest that holds all places.
        is_coalesced: the caller knows that places are in order and none is there twice.
        check_invariants: indices are checked in any case; with True also what `is_coalesced` claims.

    Shape:
        indices [sparse_dim, nnz], values [nnz, ...] -> the sizes of the axes with indices, then those of a value

    Raises:
        ShapeError: sizes that do not fit.
        RangeError: a place outside of `size`.

    Example:
        >>> import flambeau as fl
        >>> fl.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0]).to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    op = "sparse_coo_tensor"
    if values is None:
        if (indices is None) == (size is None):
            given = "indices and size without values" if size is not None else "neither values nor a size"
            raise TypeError(f"{op}: got {given}; expected indices and values, or a size alone")
        size = tuple(map(operator.index, indices if size is None else size))
        indices = ops.empty((len(size), 0), dtype=_C.int64)
        values = ops.empty((0,), dtype=_C.get_default_dtype() if dtype is None else dtype)
    elif indices is None:
        raise TypeError(f"{op}: got values without indices; expected indices and values, or a size alone")
    at, held = _index_part(op, "indices", indices, 2), _value_part(values, dtype, device, False)
    if requires_grad:
        held = held.detach().clone()
    if held.ndim == 0:  # a number, for one place
        held = held.unsqueeze(0)
    if held.shape[0] != at.shape[1]:
        given = f"indices have shape {list(at.shape)}, values {list(held.shape)}"
        raise _C.ShapeError(f"{op}: indices and values must have same nnz: {given}; expected [sparse_dim, nnz] and [nnz, ...]")
    if size is None:
        if at.shape[1] == 0 and at.shape[0]:
            raise _C.ShapeError(f"{op}: size = None, and there are no indices; expected a size")
        size = ([int(n) + 1 for n in at.amax(1).tolist()] if at.shape[0] else []) + list(held.shape[1:])
    size = tuple(map(int, size))
    if len(size) != at.shape[0] + held.ndim - 1 or size[at.shape[0] :] != tuple(held.shape[1:]):
        given = f"size = {list(size)}, indices have shape {list(at.shape)}, values {list(held.shape)}"
        raise _C.ShapeError(f"{op}: {given}; expected a size for each of {at.shape[0]} rows of indices, then {list(held.shape[1:])}")
    if at.numel():
        for d, (a, b) in enumerate(zip(*(ends.tolist() for ends in ops.aminmax(at, dim=1)), strict=True)):
            if a < 0 or b >= size[d]:
                raise _C.RangeError(f"{op}: indices[{d}] go from {a} to {b}; expected 0 to {size[d] - 1}, for size {list(size)}")
    if is_coalesced:
        check_places(op, at, size, check_invariants)
    made = SparseCOO.make(at, held, size, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _made_of(
    kind: type[SparseCompressed], starts: Any, plain: Any, values: Any, size: Sequence[int] | None, dtype: Any, device: Any,
    requires_grad: bool, check_invariants: bool | None,
) -> Any:  # fmt: skip
    """A tensor of a compressed layout of parts that are looked at."""
    op, (first, second) = f"{repr(kind.layout).partition('.')[2]}_tensor", kind.index_names()
    at = as_tensor(starts)
    n = max(at.ndim - 1, 0)
    at, other = _index_part(op, first, at, n + 1), _index_part(op, second, plain, n + 1)
    held = _value_part(values, dtype, device, requires_grad)
    inner = n + 1 + 2 * kind.blocked  # axes before the dense ones
    block = tuple(held.shape[n + 1 : inner]) if kind.blocked else (1, 1)
    batch, lines, nnz = tuple(at.shape[:-1]), at.shape[-1] - 1, other.shape[-1]
    if size is None and len(block) == 2:
        most = int(other.amax().item()) + 1 if other.numel() else 0
        rows, columns = (most, lines) if kind.by_columns else (lines, most)
        size = (*batch, rows * block[0], columns * block[1], *held.shape[inner:])
    size = tuple(int(k) for k in size or ())
    if (
        lines < 0
        or len(size) != len(held.shape) + 1 - 2 * kind.blocked
        or 0 in block
        or len(block) != 2
        or any(k % b for k, b in zip(size[n:], block))
        or size[n + kind.by_columns] != lines * block[kind.by_columns]
        or size[:n] != batch
        or tuple(other.shape) != (*batch, nnz)
        or tuple(held.shape[: n + 1]) != (*batch, nnz)
        or size[n + 2 :] != tuple(held.shape[inner:])
    ):
        given = f"size = {list(size)}, {first} {list(at.shape)}, {second} {list(other.shape)}, values {list(held.shape)}"
        count = f"{'n' if kind.by_columns else 'm'}{(' / w' if kind.by_columns else ' / h') if kind.blocked else ''} + 1"
        expected = f"[m, n], [{count}], [nnz] and [nnz{', h, w' if kind.blocked else ''}]"
        raise _C.ShapeError(f"{op}: {given}; expected {expected}, and before each the axes of a batch")
    across = size[n + 1 - kind.by_columns] // block[1 - kind.by_columns]
    for crow, col in zip(at.reshape(-1, lines + 1), other.reshape(math.prod(batch), nnz)) if n else [(at, other)]:
        checked = ops.sparse_transpose(crow, col, across)[0]  # the structure, whether or not somebody records
        if not checked.is_meta:
            checked[0].item()
        check_columns(op, crow, col, check_invariants, kind.by_columns)
    return kind.make(at, other, held, size)


@wants_tensors
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseCSR:  # fmt: skip
    """A sparse matrix by compressed rows: row r has values[crow[r]] ... values[crow[r + 1] - 1], in the columns col.

    Args:
        size: by default as many rows as crow says, and as many columns as col needs.
        check_invariants: indices are checked in any case; with True also that the columns of a row ascend.

    Shape:
        crow_indices [*batch, m + 1], col_indices [*batch, nnz], values [*batch, nnz, ...] -> [*batch, m, n, ...]

    Raises:
        ShapeError: sizes that do not fit.
        IndexError: a column outside of `size`.
        ValueError: crow_indices do not ascend from 0 to nnz.

    Example:
        >>> import flambeau as fl
        >>> fl.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    return _made_of(SparseCSR, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants)  # type: ignore[no-any-return]


@wants_tensors
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseCSC:  # fmt: skip
    """A sparse matrix by compressed columns: column c has values[ccol[c]] ... values[ccol[c + 1] - 1], in the rows row.

    Args:
        size: by default as many columns as ccol says, and as many rows as row needs.
        check_invariants: indices are checked in any case; with True also that the rows of a column ascend.

    Shape:
        ccol_indices [*batch, n + 1], row_indices [*batch, nnz], values [*batch, nnz, ...] -> [*batch, m, n, ...]

    Raises:
        ShapeError: sizes that do not fit.
        IndexError: a row outside of `size`.
        ValueError: ccol_indices do not ascend from 0 to nnz.

    Example:
        >>> import flambeau as fl
        >>> fl.sparse_csc_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense()
        tensor([[0., 3.],
                [2., 0.]])
    """
    return _made_of(SparseCSC, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants)  # type: ignore[no-any-return]


@wants_tensors
def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseBSR:  # fmt: skip
    """A sparse matrix of blocks by compressed rows: `sparse_csr_tensor` with a block in the place of each value.

    Args:
        size: in elements; by default as many rows of blocks as crow says, and as many columns of blocks as col needs.
        check_invariants: indices are checked in any case; with True also that the columns of a row ascend.

    Shape:
        crow_indices [*batch, m / h + 1], col_indices [*batch, nnz], values [*batch, nnz, h, w, ...] -> [*batch, m, n, ...]

    Raises:
        ShapeError: sizes that do not fit.
        IndexError: a column of blocks outside of `size`.
        ValueError: crow_indices do not ascend from 0 to nnz.

    Example:
        >>> import flambeau as fl
        >>> fl.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]]).to_dense()
        tensor([[0., 0., 1., 2.],
                [3., 4., 0., 0.]])
    """
    return _made_of(SparseBSR, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants)  # type: ignore[no-any-return]


@wants_tensors
def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseBSC:  # fmt: skip
    """A sparse matrix of blocks by compressed columns: `sparse_csc_tensor` with a block in the place of each value.

    Args:
        size: in elements; by default as many columns of blocks as ccol says, and as many rows of blocks as row needs.
        check_invariants: indices are checked in any case; with True also that the rows of a column ascend.

    Shape:
        ccol_indices [*batch, n / w + 1], row_indices [*batch, nnz], values [*batch, nnz, h, w, ...] -> [*batch, m, n, ...]

    Raises:
        ShapeError: sizes that do not fit.
        IndexError: a row of blocks outside of `size`.
        ValueError: ccol_indices do not ascend from 0 to nnz.
    """
    return _made_of(SparseBSC, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants)  # type: ignore[no-any-return]


@wants_tensors
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseCompressed:  # fmt: skip
    """`sparse_csr_tensor`, `sparse_csc_tensor`, `sparse_bsr_tensor` or `sparse_bsc_tensor`, with the layout as an argument.

    Raises:
        RuntimeError: no layout is given, or one that is not compressed.
    """
    if layout is None or layout not in list(KINDS):  # a list takes what can not be hashed, too
        raise _C.ArgumentError(f"sparse_compressed_tensor: layout = {layout!r}; expected one of {', '.join(map(repr, KINDS))}")
    return _made_of(  # type: ignore[no-any-return]
        KINDS[layout], compressed_indices, plain_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@wants_tensors
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Any:
    """A sparse matrix with the rows of `diagonals` along its diagonals: column j of the matrix holds elements j of the rows.

    Args:
        offsets: which diagonal each row is, of int64 and distinct: 0 the main one, k > 0 above it, k < 0 below.
        layout: flambeau.sparse_coo (the default) or flambeau.sparse_csr.

    Shape:
        diagonals [d, n] or [n], offsets [d] or [] -> shape

    Raises:
        ShapeError: shapes other than these, or a shape that is no matrix's.
        ArgumentError: offsets that are there twice; another layout.
        DTypeError: offsets that are not of int64.

    Example:
        >>> import flambeau as fl
        >>> fl.sparse.spdiags(fl.tensor([[1, 2], [3, 4]]), fl.tensor([0, -1]), (2, 3)).to_dense()
        tensor([[1, 0, 0],
                [3, 2, 0]])
    """
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    places = offsets.reshape(1) if offsets.ndim == 0 else offsets
    if len(shape) != 2 or rows.ndim != 2 or tuple(places.shape) != (rows.shape[0],):
        given = f"diagonals {list(diagonals.shape)}, offsets {list(offsets.shape)}, shape {list(shape)}"
        raise _C.ShapeError(f"spdiags: {given}; expected [d, n], [d] and the shape of a matrix")
    if offsets.dtype is not _C.int64:
        raise _C.DTypeError(f"spdiags: offsets are {offsets.dtype}; expected int64")
    below = places.tolist()
    if len(set(below)) < len(below):
        raise _C.ArgumentError(f"spdiags: offsets = {below}; expected each once")
    if layout not in (None, sparse_coo, sparse_csr):
        raise _C.ArgumentError(f"spdiags: layout = {layout!r}; expected None, {_tensor.library}.sparse_coo or {_tensor.library}.sparse_csr")
    m, n = (int(size) for size in shape)
    indices, values = [], []
    for row, k in zip(rows.unbind(0), below, strict=True):
        first, last = max(0, k), min(row.shape[0], n, m + k)
        columns = ops.arange(first, max(first, last))
        indices.append(ops.stack([columns - k, columns]))
        values.append(ops.index_select(row, 0, columns))
    held = ops.cat(values) if values else rows.reshape(-1)
    made = SparseCOO.make(ops.cat(indices, 1) if indices else ops.zeros((2, 0), dtype=_C.int64), held, (m, n))
    return made.coalesce().to_sparse_csr() if layout is sparse_csr else made


@wants_tensors
def to_sparse(
    x: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Any:
    """The places of a dense tensor that are not 0 (of whose values one is not, with fewer than all axes), with gradients.

    Args:
        sparse_dim: how many axes get indices; all by default.
        layout: flambeau.sparse_coo, or one of flambeau.sparse_csr, sparse_csc, sparse_bsr and sparse_bsc.
        blocksize: rows and columns of a block, for the last two.
        dense_dim: how many axes get none.

    Example:
        >>> import flambeau as fl
        >>> fl.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().indices()
        tensor([[0, 1],
                [1, 0]])
    """
    if (kind := known_layout("to_sparse", layout)) is not None:
        return to_compressed("to_sparse", x, kind, blocksize, dense_dim)
    if dense_dim is not None:
        sparse_dim = x.ndim - dense_dim
    axes = x.ndim if sparse_dim is None else sparse_dim
    if not (0 < axes <= x.ndim or axes == x.ndim == 0):
        raise ValueError(f"to_sparse: sparse_dim = {sparse_dim}, and the tensor has shape {list(x.shape)}; expected 1 to {x.ndim}")
    held = x.detach() != 0
    if axes < x.ndim:
        held = held.reshape((*x.shape[:axes], -1)).any(-1)
    indices = ops.nonzero(held).t().contiguous()
    values = ops.index(x, list(indices.unbind(0))) if axes else x.reshape(1)[: indices.shape[1]]
    return SparseCOO.make(indices, values, x.shape, True)


def _at_places(x: SparseCOO, mask: SparseCOO) -> SparseCOO:
    """The elements of x at the places of another coalesced tensor of its shape; 0 where x has none."""
    if x.sparse_dim() != mask.sparse_dim():
        given = f"the tensor has {x.sparse_dim()} sparse axes, mask {mask.sparse_dim()}"
        raise _C.ShapeError(f"sparse_mask: {given}; expected the same number")
    if not x._nnz():
        return SparseCOO.make(mask._idx, x._val.new_zeros((mask._nnz(), *x._val.shape[1:])), x.shape, True)
    mine, wanted = linear(x._idx, x.shape), linear(mask._idx, x.shape)
    at = ops.searchsorted(mine, wanted).clamp(max=x._nnz() - 1)
    there = ops.index_select(mine, 0, at) == wanted
    values = ops.index_select(x._val, 0, at)
    return SparseCOO.make(mask._idx, ops.where(there.reshape(-1, *[1] * (values.ndim - 1)), values, values.new_zeros(())), x.shape, True)


@wants_tensors
def sparse_mask(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of a tensor, dense or sparse, at the places of a sparse one, with gradients."""
    if not isinstance(mask, SparseTensor) or x.shape != mask.shape:
        given = f"the tensor has shape {list(x.shape)}, mask {list(mask.shape)}"
        raise _C.ShapeError(f"sparse_mask: {given}; expected a sparse mask of that shape")
    if isinstance(x, SparseTensor):
        places = mask.to_coo().coalesce()
        found = _at_places(x.to_coo().coalesce(), places)
        if not isinstance(mask, SparseCompressed):
            return found
        return to_compressed("sparse_mask", found, mask.layout, mask.blocksize or None)  # type: ignore[no-any-return]
    if isinstance(mask, SparseCompressed):
        return mask._with(mask.at(x))  # type: ignore[no-any-return]
    places = mask.to_coo().coalesce()
    return SparseCOO.make(places._idx, ops.index(x, list(places._idx.unbind(0))), x.shape, True)
