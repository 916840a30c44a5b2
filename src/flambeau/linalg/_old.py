"""Functions of linear algebra under their older names at the top level."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau._out import deliver
from flambeau._results import result
from flambeau._spelled import spelled
from flambeau._warn import warn
from flambeau.amp.autocast_mode import widens
from flambeau.linalg import _complex_factors, _complex_systems, _factors, _products, _systems
from flambeau.linalg._arguments import check_tensors
from flambeau.linalg._factors import geqrf

__all__ = [
    "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve", "lu_unpack",
    "matrix_exp", "matrix_power", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd", "triangular_solve", "vander",
]  # fmt: skip

det = spelled(input="A")(_systems.det)
inverse = spelled(input="A")(_systems.inv)
matrix_exp = spelled(input="A")(_products.matrix_exp)
matrix_power = spelled(input="A")(_products.matrix_power)
orgqr = spelled(input2="tau")(_factors.householder_product)
ormqr = spelled(input2="tau", input3="other")(widens(_factors.ormqr))


def _older(name: str, instead: str) -> None:
    warn(f"{name} is deprecated in favor of a function of linalg, and PyTorch will remove it; call {instead}")


@result("svd")
class SVD(NamedTuple):
    """What `svd` returns: input = U diag(S) V^H."""

    U: Tensor
    S: Tensor
    V: Tensor


@result("triangular_solve")
class TriangularSolve(NamedTuple):
    """What `triangular_solve` returns."""

    solution: Tensor
    cloned_coefficient: Tensor


@result("slogdet")
class Slogdet(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


@result("qr")
class QR(NamedTuple):
    """What `qr` returns: input = Q R."""

    Q: Tensor
    R: Tensor


@result("lu_unpack")
class LUUnpack(NamedTuple):
    """What `lu_unpack` returns: A = P @ L @ U."""

    P: Tensor
    L: Tensor
    U: Tensor


@spelled(input="A")
def slogdet(A: Tensor, *, out: Any = None) -> Slogdet:
    """`linalg.slogdet`."""
    return deliver("slogdet", Slogdet(*_systems.slogdet(A)), out)  # type: ignore[no-any-return]


def logdet(input: Tensor) -> Tensor:
    """Logarithm of the determinant: -inf where it is 0, NaN where it is negative, complex for complex matrices.

    Shape:
        input [..., n, n] -> [...]
    """
    sign, logabsdet = _complex_systems.linalg_slogdet(input)
    if sign.is_complex():
        return sign.log() + logabsdet  # type: ignore[no-any-return]
    return ops.where(sign < 0, float("nan"), logabsdet)


def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """`linalg.cholesky`."""
    _older("cholesky", "linalg.cholesky(A), with upper=True linalg.cholesky(A).mH")
    return deliver("cholesky", _complex_factors.linalg_cholesky_ex(input, upper=upper, check_errors=True)[0], out)  # type: ignore[no-any-return]


@spelled(input="B", input2="L")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The X of A X = B by the Cholesky factor L of A, upper with `upper`.

    Shape:
        B [..., n, k], L [..., n, n] -> [..., n, k]; batches broadcast
    """
    check_tensors("cholesky_solve", B=B, L=L)
    if B.ndim < 2 or L.ndim < 2:
        raise _C.ShapeError(f"cholesky_solve: B has shape {list(B.shape)}, L {list(L.shape)}; expected at least two axes")
    lower = L.mH if upper else L
    y = _complex_systems.linalg_solve_triangular(lower, B, upper=False)
    return deliver("cholesky_solve", _complex_systems.linalg_solve_triangular(lower.mH, y, upper=True), out)  # type: ignore[no-any-return]


@spelled(input="L")
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A by its Cholesky factor L, upper with `upper`.

    Shape:
        L [..., n, n] -> [..., n, n]
    """
    check_tensors("cholesky_inverse", L=L)
    if L.ndim < 2 or L.shape[-1] != L.shape[-2]:
        raise _C.ShapeError(f"cholesky_inverse: L has shape {list(L.shape)}; expected square matrices, [..., n, n]")
    return deliver("cholesky_inverse", cholesky_solve(ops.eye(L.shape[-1], dtype=L.dtype, device=L.device), L, upper), out)  # type: ignore[no-any-return]


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """`linalg.lu_factor_ex`: the factors and pivots, and with `get_infos` which pivot is 0.

    Raises:
        LinAlgError: a pivot is 0, and `get_infos` is False.
    """
    _older("lu", "LU, pivots = linalg.lu_factor(A), with get_infos=True LU, pivots, info = linalg.lu_factor_ex(A)")
    LU, pivots, info = _complex_systems.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    return deliver("lu", (LU, pivots, info) if get_infos else (LU, pivots), out)


@spelled(input="b")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`linalg.lu_solve` with its arguments in another order."""
    _older("lu_solve", "linalg.lu_solve(LU, pivots, B), whose arguments stand in another order")
    return deliver("lu_solve", _complex_systems.linalg_lu_solve(LU_data, LU_pivots, b), out)  # type: ignore[no-any-return]


@wants_tensors
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None) -> Any:
    """P, L and U of what `lu` returned; what is not wanted is empty."""
    check_tensors("lu_unpack", LU_data=LU_data, LU_pivots=LU_pivots)
    none = ops.empty((0,), dtype=LU_data.dtype)
    L, U = _factors.triangles(LU_data) if unpack_data else (none, none)
    P = _factors.permutation(LU_pivots, LU_data.shape[-2], LU_data) if unpack_pivots else none
    return deliver("lu_unpack", LUUnpack(P, L, U), out)


def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """`linalg.qr`, 'reduced' or 'complete'."""
    _older("qr", "linalg.qr(A, 'reduced' if some else 'complete')")
    return deliver("qr", QR(*_complex_factors.linalg_qr(input, "reduced" if some else "complete")), out)


@wants_tensors
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> SVD:
    """`linalg.svd` with V instead of its transpose; U and V are zeros without `compute_uv`."""
    if not compute_uv:
        m, n = input.shape[-2:]
        S = _complex_factors.linalg_svd(input, False, False)[1]
        zero = [ops.zeros([*input.shape[:-2], k, k], dtype=input.dtype) for k in (m, n)]
        return deliver("svd", SVD(zero[0], S, zero[1]), out)  # type: ignore[no-any-return]
    U, S, Vh = _complex_factors.linalg_svd(input, not some)
    return deliver("svd", SVD(U, S, Vh.mH), out)  # type: ignore[no-any-return]


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with its older tolerance."""
    return _systems.pinv(input, rcond)


@spelled(input="b")
@widens
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False, *, out: Any = None
) -> TriangularSolve:
    """`linalg.solve_triangular` with its arguments in another order; with `transpose` of A^T."""
    _older("triangular_solve", "linalg.solve_triangular(A, B, upper=upper), whose arguments stand in another order")
    side = A.transpose(-2, -1) if transpose else A
    x = _complex_systems.linalg_solve_triangular(side, b, upper=upper != transpose, unitriangular=unitriangular)
    return deliver("triangular_solve", TriangularSolve(x, A.clone()), out)  # type: ignore[no-any-return]


@wants_tensors
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """`linalg.multi_dot` of matrices as arguments."""
    _older("chain_matmul", "linalg.multi_dot(matrices)")
    if len(matrices) == 1:
        return deliver("chain_matmul", matrices[0].clone(), out)  # type: ignore[no-any-return]
    return _products.multi_dot(matrices, out=out)


@wants_tensors
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """A Vandermonde matrix: powers N - 1, ..., 0 of each element, or 0, ..., N - 1 with `increasing`.

    Shape:
        x [n] -> [n, N], N = n by default
    """
    check_tensors("vander", x=x)
    if x.ndim != 1:
        raise _C.ShapeError(f"vander: x must be a one-dimensional tensor, got shape {list(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise ValueError(f"vander: N = {N}; expected N >= 0")
    kind: Any = x.dtype if x.is_floating_point() or x.is_complex() else _C.int64
    found = _products.vander(x, N=count) if count > 1 else ops.ones([*x.shape, count], dtype=kind)
    return found if increasing else ops.flip(found, (-1,))
