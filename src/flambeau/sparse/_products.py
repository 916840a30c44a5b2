"""Products with dense matrices whose results are sparse: by whole rows (`hspmm`) or by places (`smm`, `sspaddmm`)."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau.sparse._answers import coalesced
from flambeau.sparse._functions import mm
from flambeau.sparse._tensor import SparseCOO, SparseTensor

__all__ = ["hspmm", "smm", "sspaddmm"]


def _rows(op: str, mat1: Any, mat2: Any) -> tuple[Tensor, Tensor]:
    """The rows of a product that have a place of mat1, and their numbers."""
    x = coalesced(op, mat1)
    if isinstance(mat2, SparseTensor) or not isinstance(mat2, Tensor):
        raise TypeError(f"{op}: mat2 is a {type(mat2).__name__}; expected a dense tensor")
    if mat2.ndim != 2:
        raise _C.ShapeError(f"{op}: mat2 has shape {list(mat2.shape)}; expected a matrix")
    rows = x._idx[0].unique()
    return ops.index_select(mm(x, mat2), 0, rows), rows


@wants_tensors
def hspmm(mat1: Any, mat2: Any) -> SparseCOO:
    """The product of a sparse and a dense matrix: a sparse tensor of whole rows, of those alone that have a place in `mat1`.

    Shape: [m, n], [n, k] -> [m, k], with one axis of indices and one dense one.

    Example:
        >>> import flambeau as fl
        >>> A = fl.sparse_coo_tensor([[1], [0]], [3.0], (2, 2))
        >>> fl.hspmm(A, fl.ones(2, 2))
        tensor(indices=tensor([[1]]),
               values=tensor([[3., 3.]]),
               size=(2, 2), nnz=1, layout=flambeau.sparse_coo)
    """
    values, rows = _rows("hspmm", mat1, mat2)
    return SparseCOO.make(rows.unsqueeze(0), values, (mat1.shape[0], mat2.shape[1]), True)


@wants_tensors
def smm(input: Any, mat2: Any) -> SparseCOO:
    """The same by coordinates: with a place for each element of a row that has one in `input`."""
    values, rows = _rows("smm", input, mat2)
    columns = ops.arange(mat2.shape[1])
    places = ops.stack([ops.repeat_interleave(rows, mat2.shape[1]), columns.repeat(rows.shape[0])])
    return SparseCOO.make(places, values.reshape(-1), (input.shape[0], mat2.shape[1]), True)


@wants_tensors
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> SparseCOO:
    """beta * input + alpha * (mat1 @ mat2), of sparse `input` and `mat1`: the places of both, one behind the other, not coalesced.

    Shape: input [m, k], mat1 [m, n], mat2 [n, k] -> [m, k].

    Example:
        >>> import flambeau as fl
        >>> A = fl.sparse_coo_tensor([[1], [0]], [3.0], (2, 2))
        >>> fl.sspaddmm(A, A, fl.ones(2, 2), alpha=10).to_dense()
        tensor([[ 0.,  0.],
                [33., 30.]])
    """
    first, product = coalesced("sspaddmm", input), smm(mat1, mat2)
    if first.shape != product.shape:
        raise _C.ShapeError(f"sspaddmm: input has shape {list(first.shape)}, the product {list(product.shape)}; expected the same")
    if first.dtype is not product.dtype:
        raise _C.DTypeError(f"sspaddmm: input is {first.dtype}, the product {product.dtype}; expected the same")
    places, values = ops.cat([first._idx, product._idx], 1), ops.cat([first._val * beta, product._val * alpha])
    return SparseCOO.make(places, values, product.shape)
