"""Sparse tensors from indices and values, and of dense ones."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from flambeau import _C, _tensor
from flambeau._C import Tensor, ops
from flambeau._memory_format import sparse_coo, sparse_csr
from flambeau.sparse._invariants import check_columns, check_places
from flambeau.sparse._tensor import SparseCOO, SparseCSR, SparseTensor, linear


def _index_part(op: str, name: str, data: Any, ndim: int) -> Tensor:
    from flambeau._tensor import as_tensor

    x = as_tensor(data)
    if x.numel() == 0 and x.ndim == ndim:
        x = x.to(_C.int64)
    if x.is_complex() or x.ndim != ndim:
        raise _C.DTypeError(f"{op}: {name} are {x.dtype} of shape {list(x.shape)}; expected integers with {ndim} axes")
    if x.is_floating_point() and bool((x != x.floor()).any()):
        raise _C.DTypeError(f"{op}: {name} are {x.dtype}, and one of them is no whole number; expected integers: round them first")
    return x.detach().to(_C.int64)


def _value_part(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    from flambeau._tensor import as_tensor

    x = as_tensor(values, dtype=dtype, device=device)
    if requires_grad:  # a leaf of its own
        return x.detach().clone().requires_grad_()
    return x


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
        IndexError: a place outside of `size`.

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
    at, held = _index_part(op, "indices", indices, 2), _value_part(values, dtype, device, requires_grad)
    if held.ndim == 0:  # a number, for one place
        held = held.unsqueeze(0)
    if held.shape[0] != at.shape[1]:
        given = f"indices have shape {list(at.shape)}, values {list(held.shape)}"
        raise _C.ShapeError(f"{op}: {given}; expected [sparse_dim, nnz] and [nnz, ...]")
    if size is None:
        if at.shape[1] == 0 and at.shape[0]:
            raise _C.ShapeError(f"{op}: size = None, and there are no indices; expected a size")
        size = ([int(n) + 1 for n in at.amax(1).tolist()] if at.shape[0] else []) + list(held.shape[1:])
    size = tuple(int(n) for n in size)
    if len(size) != at.shape[0] + held.ndim - 1 or size[at.shape[0] :] != tuple(held.shape[1:]):
        given = f"size = {list(size)}, indices have shape {list(at.shape)}, values {list(held.shape)}"
        raise _C.ShapeError(f"{op}: {given}; expected a size for each of {at.shape[0]} rows of indices, then {list(held.shape[1:])}")
    if at.numel():
        low, high = at.amin(1).tolist(), at.amax(1).tolist()
        for d, (a, b) in enumerate(zip(low, high, strict=True)):
            if a < 0 or b >= size[d]:
                raise IndexError(f"{op}: indices[{d}] go from {a} to {b}; expected 0 to {size[d] - 1}, for size {list(size)}")
    if is_coalesced:
        check_places(op, at, size, check_invariants)
    return SparseCOO.make(at, held, size, bool(is_coalesced))


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCSR:
    """A sparse matrix by compressed rows: row r has values[crow[r]] ... values[crow[r + 1] - 1], in the columns col.

    Args:
        size: by default as many rows as crow says, and as many columns as col needs.
        check_invariants: indices are checked in any case; with True also that the columns of a row ascend.

    Shape:
        crow_indices [m + 1], col_indices [nnz], values [nnz] -> [m, n]

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
    op = "sparse_csr_tensor"
    crow, col = _index_part(op, "crow_indices", crow_indices, 1), _index_part(op, "col_indices", col_indices, 1)
    held = _value_part(values, dtype, device, requires_grad)
    if size is None:
        size = (crow.shape[0] - 1, int(col.amax().item()) + 1 if col.numel() else 0)
    size = tuple(int(n) for n in size)
    if len(size) != 2 or crow.shape[0] != size[0] + 1 or held.ndim != 1 or held.shape[0] != col.shape[0]:
        given = f"size = {list(size)}, crow_indices {list(crow.shape)}, col_indices {list(col.shape)}, values {list(held.shape)}"
        raise _C.ShapeError(f"{op}: {given}; expected [m, n], [m + 1], [nnz] and [nnz]")
    checked = ops.sparse_transpose(crow, col, size[1])[0]  # the structure, whether or not somebody records
    if not checked.is_meta:
        checked[0].item()
    check_columns(op, crow, col, check_invariants)
    return SparseCSR.make(crow, col, held, size)


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCSR:
    """`sparse_csr_tensor`, with the layout as an argument.

    Raises:
        RuntimeError: no layout is given.
        NotImplementedError: it is another one than `sparse_csr`.
    """
    if layout is None:
        raise _C.ArgumentError("sparse_compressed_tensor: layout = None; expected sparse_csr")
    if layout is not sparse_csr:
        _no_layout("sparse_compressed_tensor", repr(layout))
    return sparse_csr_tensor(
        compressed_indices, plain_indices, values, size, dtype=dtype, device=device, requires_grad=requires_grad,
        check_invariants=check_invariants,
    )  # fmt: skip


def _no_layout(op: str, name: str) -> NoReturn:
    raise NotImplementedError(f"{op}: there are no tensors of layout {name}; call sparse_csr_tensor or sparse_coo_tensor")


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> NoReturn:  # fmt: skip
    """Refused: there is no layout of compressed columns. The same parts are those of the transpose by compressed rows.

    Raises:
        NotImplementedError: always.
    """
    _no_layout("sparse_csc_tensor", "sparse_csc")


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> NoReturn:  # fmt: skip
    """Refused: there is no layout of blocks.

    Raises:
        NotImplementedError: always.
    """
    _no_layout("sparse_bsr_tensor", "sparse_bsr")


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> NoReturn:  # fmt: skip
    """Refused: there is no layout of blocks.

    Raises:
        NotImplementedError: always.
    """
    _no_layout("sparse_bsc_tensor", "sparse_bsc")


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


def to_sparse(x: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """The places of a dense tensor that are not 0 (of whose values one is not, with fewer than all axes), with gradients.

    Args:
        sparse_dim: how many axes get indices; all by default.
        layout: flambeau.sparse_coo or flambeau.sparse_csr.

    Example:
        >>> import flambeau as fl
        >>> fl.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().indices()
        tensor([[0, 1],
                [1, 0]])
    """
    if layout not in (None, sparse_coo, sparse_csr):
        raise ValueError(f"to_sparse: layout = {layout!r}; expected None, {_tensor.library}.sparse_coo or {_tensor.library}.sparse_csr")
    if layout is sparse_csr:
        return to_sparse_csr(x)
    axes = x.ndim if sparse_dim is None else sparse_dim
    if not (0 < axes <= x.ndim or axes == x.ndim == 0):
        raise ValueError(f"to_sparse: sparse_dim = {sparse_dim}, and the tensor has shape {list(x.shape)}; expected 1 to {x.ndim}")
    held = x.detach() != 0
    if axes < x.ndim:
        held = held.reshape((*x.shape[:axes], -1)).any(-1)
    indices = ops.nonzero(held).t().contiguous()
    values = ops.index(x, list(indices.unbind(0))) if axes else x.reshape(1)[: indices.shape[1]]
    return SparseCOO.make(indices, values, x.shape, True)


def to_sparse_csr(x: Tensor, dense_dim: int | None = None) -> SparseCSR:
    """The elements of a dense matrix that are not 0, by compressed rows, with gradients."""
    if x.ndim != 2 or dense_dim:
        raise _C.ShapeError(f"to_sparse_csr: the tensor has shape {list(x.shape)}, dense_dim = {dense_dim}; expected a matrix")
    return to_sparse(x).to_sparse_csr()  # type: ignore[no-any-return]


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


def sparse_mask(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of a tensor, dense or sparse, at the places of a sparse one, with gradients."""
    if not isinstance(mask, SparseTensor) or x.shape != mask.shape:
        given = f"the tensor has shape {list(x.shape)}, mask {list(mask.shape)}"
        raise _C.ShapeError(f"sparse_mask: {given}; expected a sparse mask of that shape")
    places = mask.to_coo().coalesce()
    if isinstance(x, SparseTensor):
        found = _at_places(x.to_coo().coalesce(), places)
        return found.to_sparse_csr() if isinstance(mask, SparseCSR) else found
    return SparseCOO.make(places._idx, ops.index(x, list(places._idx.unbind(0))), x.shape, True)
