"""Sparse tensors as graph networks use them: coordinates (COO), compressed rows (CSR) and columns (CSC), and these of blocks (BSR, BSC).

A sparse tensor is a `Tensor` whose own memory is none (its core is a meta tensor of the logical shape); it holds indices and values.
What it can do is in `_functions.py` and `_places.py`, with gradients by its values and by dense tensors that it meets; everything else
raises an error that names the function. The product with dense matrices is a kernel (`ops/sparse.yaml`): threads share out rows, and
results do not depend on how many there are.

Example:
    >>> import flambeau as fl
    >>> A = fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> A
    tensor(indices=tensor([[0, 1, 1],
                           [2, 0, 2]]),
           values=tensor([3., 4., 5.]),
           size=(2, 3), nnz=3, layout=flambeau.sparse_coo)
    >>> A @ fl.ones(3, 2)
    tensor([[3., 3.],
            [9., 9.]])
"""

from flambeau.sparse import _inplace, _places
from flambeau.sparse._compressed import SparseBSC, SparseBSR, SparseCompressed, SparseCSC, SparseCSR
from flambeau.sparse._construct import spdiags
from flambeau.sparse._functions import (
    addmm,
    as_sparse_gradcheck,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    sum,
)
from flambeau.sparse._invariants import check_sparse_tensor_invariants
from flambeau.sparse._tensor import SparseCOO, SparseTensor
from flambeau.sparse._typed import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    "SparseBSC", "SparseBSR", "SparseCOO", "SparseCSC", "SparseCSR", "SparseCompressed", "SparseTensor", "addmm",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip
