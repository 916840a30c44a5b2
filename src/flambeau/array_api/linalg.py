"""The standard's extension for linear algebra, over `flambeau.linalg`. The last two axes are a matrix, those before it a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau as fl
from flambeau import _C
from flambeau import linalg as ours
from flambeau._C import Tensor, ops
from flambeau.array_api._dtypes import isdtype, together
from flambeau.array_api._manipulation import matrix_transpose
from flambeau.array_api._reductions import sum as _sum

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip


class EighResult(NamedTuple):
    """What `eigh` and `eig` return."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _square(name: str, x: Tensor) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise _C.ShapeError(f"{name}: x has shape {list(x.shape)}; expected square matrices, [..., n, n]")


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of matrices, or with vectors.

    Raises:
        ShapeError: a 0-d tensor, or sizes that do not meet.
    """
    return ops.matmul(*together(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sums of products over several axes of both."""
    a, b = together(x1, x2)
    result: Tensor = fl.tensordot(a, b, dims=axes)
    return result


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of conj(x1) * x2 along an axis, counted from the end; the others broadcast.

    Raises:
        ShapeError: the axis has different sizes.
    """
    a, b = together(x1, x2)
    if min(a.ndim, b.ndim) == 0 or not -min(a.ndim, b.ndim) <= axis < max(a.ndim, b.ndim) or a.shape[axis] != b.shape[axis]:
        given = f"x1 has shape {list(a.shape)}, x2 {list(b.shape)}, axis = {axis}"
        raise _C.ShapeError(f"vecdot: {given}; expected one size along an axis that both have")
    return _sum(ops.conj(a) * b, axis=axis, dtype=a.dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower or upper factor of Hermitian positive-definite matrices."""
    return ours.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Vector products along an axis of size 3."""
    a, b = together(x1, x2)
    a, b = fl.broadcast_tensors(a, b) if a.shape[axis] == 3 and b.shape[axis] == 3 else (a, b)
    return ours.cross(a, b, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return ours.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return ours.diagonal(x, offset=offset)


def eig(x: Tensor, /) -> EighResult:
    """Complex eigenvalues of square matrices, and eigenvectors in columns."""
    return EighResult(*ours.eig(x))


def eigvals(x: Tensor, /) -> Tensor:
    """Complex eigenvalues of square matrices."""
    return ours.eigvals(x)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues of Hermitian matrices, ascending, and eigenvectors in columns."""
    return EighResult(*ours.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of Hermitian matrices, ascending."""
    return ours.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses."""
    return ours.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of each matrix."""
    return ours.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Each matrix multiplied n times."""
    return ours.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above rtol times the largest; max(m, n) eps by default."""
    rtol = rtol.unsqueeze(-1).squeeze(-1) if isinstance(rtol, Tensor) else rtol
    return ours.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of elements of two vectors."""
    a, b = together(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise _C.ShapeError(f"outer: x1 has shape {list(a.shape)}, x2 {list(b.shape)}; expected vectors")
    return a.unsqueeze(-1) * b


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudoinverses; singular values up to rtol times the largest count as 0."""
    return ours.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """x = Q R with orthonormal columns of Q and upper triangles R."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode = {mode!r}; expected 'reduced' or 'complete'")
    return QRResult(*ours.qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Signs of determinants, and logarithms of their absolute values."""
    return SlogdetResult(*ours.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x of x1 x = x2; x2 is a vector where it has one axis, and a batch of matrices otherwise."""
    a, b = together(x1, x2)
    _square("solve", a)
    if b.ndim == 1:
        return ours.solve(a, b.unsqueeze(-1)).squeeze(-1)
    if b.ndim < a.ndim:  # a batch of vectors it is not
        b = b.reshape((*(1,) * (a.ndim - b.ndim), *b.shape))
    return ours.solve(a, b)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh."""
    return SVDResult(*ours.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    return ours.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sums of diagonals; integers in int64 by default."""
    return _sum(ours.diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """A norm of the vectors along axes."""
    if axis == ():
        return ops.abs(x) if ord != 0 else (x != 0).to(ops.abs(x).dtype)
    if x.numel() == 0 and math.isinf(ord) and isdtype(x.dtype, ("real floating", "complex floating")):
        return _sum(ops.abs(x), axis=axis, keepdims=keepdims)
    return ours.vector_norm(x, ord, axis, keepdims)
