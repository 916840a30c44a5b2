"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._out import deliver
from flambeau.linalg import _complex_systems
from flambeau.linalg._arguments import check_tensors
from flambeau.linalg._factors import eigvalsh, svdvals
from flambeau.linalg._systems import tolerance

_INF = float("inf")


def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """(sum |x|^ord)^(1 / ord) over `dim`, or over all elements; inf and -inf give the largest and smallest, 0 counts what is not 0.

    Shape:
        as a reduction of x
    """
    return deliver("linalg.vector_norm", ops.vector_norm(x, ord, dim, keepdim, dtype=dtype), out)  # type: ignore[no-any-return]


def _check_matrices(op: str, A: Tensor) -> None:
    check_tensors(op, A=A)
    if A.ndim < 2:
        raise _C.ShapeError(f"{op}: The input tensor A must have at least 2 dimensions, got shape {list(A.shape)}")
    if not A.is_floating_point() and not A.is_complex():
        raise _C.DTypeError(f"{op}: A is {A.dtype}; expected a floating point or complex type")


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """A norm of the matrices in the axes `dim`.

    Args:
        ord: 'fro' (root of the sum of squares), 'nuc' (sum of singular values), 2, -2 (largest and smallest singular value),
            1, -1, inf, -inf (largest and smallest sum of absolute values of a column, of a row).

    Shape:
        A [..., m, n] -> [...]

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.matrix_norm(fl.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc")
        tensor(7.)
    """
    _check_matrices("linalg.matrix_norm", A)
    axes, n = list(dim) if isinstance(dim, (tuple, list)) or not isinstance(dim, (int, Integral)) else [int(dim)], A.ndim
    for d in axes:
        if not -n <= d < n:
            raise no_such_axis("linalg.matrix_norm", "an axis of dim", d, A.shape, "A")
    if len(axes) != 2 or axes[0] % n == axes[1] % n:
        raise _C.ArgumentError(f"linalg.matrix_norm: dim = {dim}, A has shape {list(A.shape)}; expected two different axes")
    if dtype is not None:
        A = A.to(dtype)
    i, j = axes[0] % n, axes[1] % n
    if ord == "fro":
        return deliver("linalg.matrix_norm", ops.vector_norm(A, 2.0, (i, j), keepdim), out)  # type: ignore[no-any-return]
    if ord == "nuc" or ord in (2, -2):
        value = _of_singular_values(A, ord, i, j, keepdim)
    elif ord in (1, -1, _INF, -_INF):
        summed, folded = (i, j) if ord in (1, -1) else (j, i)
        sums = ops.vector_norm(A, 1.0, summed, True)
        value = _extreme(sums, folded, ord > 0)
        value = value if keepdim else value.squeeze((i, j))
    else:
        raise _C.ArgumentError(f"linalg.matrix_norm: Order {ord} not supported; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return deliver("linalg.matrix_norm", value, out)  # type: ignore[no-any-return]


def _extreme(x: Tensor, dim: int, largest: bool) -> Tensor:
    """The largest or smallest along dim, which is kept. The largest norm of none is 0."""
    if largest and x.shape[dim] == 0:
        return x.sum(dim, keepdim=True)
    return (ops.amax if largest else ops.amin)(x, dim, True)


def _of_singular_values(A: Tensor, ord: Any, i: int, j: int, keepdim: bool) -> Tensor:
    from flambeau._functions import movedim

    s = svdvals(movedim(A, (i, j), (-2, -1)))
    value = s.sum(-1) if ord == "nuc" else _extreme(s, -1, ord == 2).squeeze(-1)
    if keepdim:
        for d in sorted((i, j)):
            value = value.unsqueeze(d)
    return value


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, dtype: Any = None
) -> Tensor:
    """`vector_norm` or `matrix_norm`: a matrix norm where `ord` is given and there are two axes, else a vector norm.

    Without `ord` it is the 2-norm of all elements, or of those along `dim`.
    """
    axes = None if dim is None else [int(dim)] if isinstance(dim, (int, Integral)) else list(dim)
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise _C.ArgumentError(f"linalg.norm: Order {ord} not supported; expected a number, 'fro' or 'nuc'")
    if axes is not None and len(axes) not in (1, 2):
        raise _C.ArgumentError(f"linalg.norm: dim = {dim}; expected one or two axes")
    if axes is None and ord is not None and A.ndim not in (1, 2):
        raise _C.ShapeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {A.ndim}D, shape {list(A.shape)}"
        )
    matrix = ord is not None and (len(axes) == 2 if axes is not None else A.ndim == 2)
    if isinstance(ord, str) and not matrix:
        raise _C.ArgumentError(
            f"linalg.norm: ord = {ord!r} is a matrix norm, and dim = {dim} of A {list(A.shape)} is one axis; expected two"
        )
    if matrix:
        return matrix_norm(A, ord, (-2, -1) if axes is None else axes, keepdim, dtype=dtype, out=out)
    return deliver("linalg.norm", ops.vector_norm(A, 2.0 if ord is None else ord, axes, keepdim, dtype=dtype), out)  # type: ignore[no-any-return]


def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number |A| |A^-1| in the norm p of `matrix_norm`; by default that of the singular values. inf for singular A.

    Shape:
        A [..., n, n], of any shape with p = None, 2 or -2 -> [...]
    """
    _check_matrices("linalg.cond", A)
    if p is None or p in (2, -2):
        s = svdvals(A)
        if A.numel() == 0:
            value = ops.zeros(A.shape[:-2], dtype=s.dtype, device=A.device)
        else:
            most, least = s.select(-1, 0), s.select(-1, -1)
            value = least / most if p == -2 else most / least
        return deliver("linalg.cond", value, out)  # type: ignore[no-any-return]
    if p not in ("fro", "nuc", 1, -1, _INF, -_INF):
        raise _C.ArgumentError(f"linalg.cond: p = {p!r}; expected None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    inverse, info = _complex_systems.linalg_inv_ex(A)
    if A.numel() == 0:
        return deliver("linalg.cond", ops.zeros(A.shape[:-2], dtype=A.dtype.to_real(), device=A.device), out)  # type: ignore[no-any-return]
    singular = info != 0
    shown = ops.where(singular.unsqueeze(-1).unsqueeze(-1), 0.0, inverse)
    value = ops.where(singular, _INF, matrix_norm(A, p) * matrix_norm(shown, p))
    return deliver("linalg.cond", value, out)  # type: ignore[no-any-return]


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Tensor | None = None
) -> Tensor:
    """How many singular values are above max(atol, rtol * the largest).

    Args:
        tol: what atol was called, with rtol = 0.
        hermitian: A is symmetric (complex: Hermitian), and its lower triangle is read.

    Shape:
        A [..., m, n] -> [...] of int64
    """
    _check_matrices("linalg.matrix_rank", A)
    x = A.detach()
    sizes = eigvalsh(x).abs().sort(-1, True)[0] if hermitian else svdvals(x)
    if tol is not None:
        atol, rtol = tol, 0.0
    least = tolerance("linalg.matrix_rank", sizes, max(A.shape[-2:]), atol, rtol)
    return deliver("linalg.matrix_rank", (sizes > least.unsqueeze(-1)).sum(-1), out)  # type: ignore[no-any-return]
