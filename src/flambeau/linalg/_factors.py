"""Factors of matrices: Cholesky, LU, QR, eigenvectors of symmetric and Hermitian matrices, singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._out import deliver
from flambeau._results import result
from flambeau.linalg import _complex_factors, _complex_systems
from flambeau.linalg._arguments import check_tensors, wants_gradient

if TYPE_CHECKING:
    from flambeau._C import (
        _linalg_cholesky_ex_result,
        _linalg_eigh_result,
        _linalg_lu_factor_ex_result,
        _linalg_qr_result,
        _linalg_svd_result,
    )


@result("linalg_lu")
class LU(NamedTuple):
    """What `lu` returns: A = P @ L @ U."""

    P: Tensor
    L: Tensor
    U: Tensor


@result("linalg_lu_factor")
class LUFactor(NamedTuple):
    """What `lu_factor` returns: L below and U above the diagonal of `LU`, and the row, from 1, that came to each row."""

    LU: Tensor
    pivots: Tensor


def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangle L of A = L L^H for Hermitian positive-definite A (real ones: symmetric); with `upper` the upper one of A = U^H U.

    Only that triangle of A is read.

    Shape:
        A [..., n, n] -> [..., n, n]

    Raises:
        LinAlgError: A is not positive-definite.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.cholesky(fl.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    return deliver("linalg.cholesky", _complex_factors.linalg_cholesky_ex(A, upper=upper, check_errors=True)[0], out)  # type: ignore[no-any-return]


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> _linalg_cholesky_ex_result:
    """`cholesky`, and for each matrix the order of the first minor that is not positive, or 0, as `info`.

    Shape:
        A [..., n, n] -> L [..., n, n], info [...]
    """
    return deliver("linalg.cholesky_ex", _complex_factors.linalg_cholesky_ex(A, upper=upper, check_errors=check_errors), out)  # type: ignore[no-any-return]


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> _linalg_lu_factor_ex_result:
    """`lu_factor`, and for each matrix the number of the first pivot that is 0, or 0, as `info`.

    Shape:
        A [..., m, n] -> LU [..., m, n], pivots [..., min(m, n)], info [...]
    """
    return deliver("linalg.lu_factor_ex", _complex_systems.linalg_lu_factor_ex(A, pivot=pivot, check_errors=check_errors), out)  # type: ignore[no-any-return]


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> LUFactor:
    """A = P L U with rows exchanged for the largest pivots, as one matrix and the exchanges; for `lu_solve`.

    Shape:
        A [..., m, n] -> LU [..., m, n], pivots [..., min(m, n)]

    Raises:
        LinAlgError: a pivot is 0.
    """
    factors = _complex_systems.linalg_lu_factor_ex(A, pivot=pivot, check_errors=True)
    return deliver("linalg.lu_factor", LUFactor(factors[0], factors[1]), out)  # type: ignore[no-any-return]


def permutation(pivots: Tensor, rows: int, like: Tensor) -> Tensor:
    """The matrix P of the exchanges that pivots say."""
    order = ops.linalg_pivot_order(pivots, rows)
    return (order.unsqueeze(-2) == ops.arange(rows, device=like.device).unsqueeze(-1)).to(like.dtype)


def triangles(LU: Tensor) -> tuple[Tensor, Tensor]:
    """L and U of the one matrix that has both."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    below = ops.tril(LU.narrow(-1, 0, k), -1)
    return below + ops.eye(m, k, dtype=LU.dtype, device=LU.device), ops.triu(LU.narrow(-2, 0, k))


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> LU:
    """A = P L U with a permutation P, a unit lower triangle L and an upper triangle U.

    Shape:
        A [..., m, n] -> P [..., m, m], L [..., m, k], U [..., k, n] with k = min(m, n)

    Example:
        >>> import flambeau as fl
        >>> P, L, U = fl.linalg.lu(fl.tensor([[0.0, 2.0], [1.0, 3.0]]))
        >>> P @ L @ U
        tensor([[0., 2.],
                [1., 3.]])
    """
    factors = _complex_systems.linalg_lu_factor_ex(A, pivot=pivot)
    L, U = triangles(factors[0])
    return deliver("linalg.lu", LU(permutation(factors[1], A.shape[-2], A), L, U), out)  # type: ignore[no-any-return]


def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> _linalg_qr_result:
    """A = Q R with orthonormal columns of Q and an upper triangle R, by Householder reflections.

    Args:
        mode: 'reduced' (k = min(m, n) columns of Q), 'complete' (all m), or 'r' (R alone; Q is empty).

    Shape:
        A [..., m, n] -> Q [..., m, k], R [..., k, n]

    Raises:
        AutogradError: backward with mode 'r', or 'complete' and m > n.
    """
    return deliver("linalg.qr", _complex_factors.linalg_qr(A, mode), out)  # type: ignore[no-any-return]


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> _linalg_eigh_result:
    """Eigenvalues of symmetric (complex: Hermitian) matrices in ascending order, and eigenvectors in columns. One triangle of A is read.

    The gradient by eigenvectors divides by differences of eigenvalues: it is not finite where two are equal. Complex eigenvectors
    have arbitrary phases, and backward refuses a loss that depends on them.

    Args:
        UPLO: which triangle is read, 'L' or 'U'.

    Shape:
        A [..., n, n] -> eigenvalues [..., n], eigenvectors [..., n, n]

    Raises:
        LinAlgError: an element is not finite.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.eigh(fl.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        tensor([1., 3.])
    """
    return deliver("linalg.eigh", _complex_factors.linalg_eigh(A, UPLO), out)  # type: ignore[no-any-return]


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of `eigh` alone; their gradient is there where some are equal, too.

    Shape:
        A [..., n, n] -> [..., n]
    """
    check_tensors("linalg.eigvalsh", A=A)
    return deliver("linalg.eigvalsh", _complex_factors.linalg_eigh(A, UPLO, wants_gradient(A))[0], out)  # type: ignore[no-any-return]


def _check_driver(op: str, driver: str | None) -> None:
    if driver is not None:
        raise _C.ArgumentError(f"{op}: driver = {driver!r}; expected None, as drivers are CUDA's")


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> _linalg_svd_result:
    """A = U diag(S) Vh with orthonormal columns of U, orthonormal rows of Vh, and S descending.

    The gradient by U and Vh divides by differences of squared singular values: it is not finite where two are equal. Complex
    vectors have arbitrary phases, and backward refuses a loss that depends on them.

    Shape:
        A [..., m, n] -> U [..., m, m], S [..., min(m, n)], Vh [..., n, n]; without full_matrices U has min(m, n) columns
        and Vh as many rows

    Raises:
        LinAlgError: an element is not finite.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.svd(fl.tensor([[3.0, 0.0], [0.0, -2.0]])).S
        tensor([3., 2.])
    """
    _check_driver("linalg.svd", driver)
    return deliver("linalg.svd", _complex_factors.linalg_svd(A, full_matrices), out)  # type: ignore[no-any-return]


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values of `svd` alone; their gradient is there where some are equal, too.

    Shape:
        A [..., m, n] -> [..., min(m, n)]
    """
    _check_driver("linalg.svdvals", driver)
    check_tensors("linalg.svdvals", A=A)
    return deliver("linalg.svdvals", _complex_factors.linalg_svd(A, False, wants_gradient(A))[1], out)  # type: ignore[no-any-return]


def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of H_1 H_2 ... H_k with H_i = 1 - tau_i v_i v_i^H, v_i below the diagonal of `input`, with 1 on it.

    Shape:
        input [..., m, n], tau [..., k], k <= n <= m -> [..., m, n]
    """
    return deliver("linalg.householder_product", _complex_factors.linalg_householder_product(input, tau), out)  # type: ignore[no-any-return]


@result("geqrf")
class Geqrf(NamedTuple):
    """What `geqrf` returns."""

    a: Tensor
    tau: Tensor


def geqrf(input: Tensor, *, out: Any = None) -> Geqrf:
    """R above the diagonal of `a` and the reflectors of `householder_product` below, with their factors `tau`.

    Shape:
        input [..., m, n] -> a [..., m, n], tau [..., min(m, n)]
    """
    return deliver("geqrf", Geqrf(*_complex_factors.linalg_geqrf(input)), out)  # type: ignore[no-any-return]


def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q @ other, or other @ Q without `left`, for the whole square Q of `householder_product`; Q^H with `transpose`.

    Shape:
        input [..., s, at least k], tau [..., k], other [..., m, n], where s is m, or n without left -> [..., m, n]
    """
    size = input.shape[-2]
    if other.ndim < 2 or other.shape[-2 if left else -1] != size:
        wanted = f"other.shape[{-2 if left else -1}] == {size}"
        raise _C.ShapeError(f"ormqr: input has shape {list(input.shape)}, other {list(other.shape)}; expected {wanted}")
    k = tau.shape[-1] if tau.ndim else 0
    if tau.ndim != input.ndim - 1 or k > min(input.shape[-2:]):
        wanted = "[..., s, n] and [..., k], k <= min(s, n)"
        raise _C.ShapeError(f"ormqr: input has shape {list(input.shape)}, tau {list(tau.shape)}; expected {wanted}")
    rest = ops.zeros([*input.shape[:-1], size - k], dtype=input.dtype, device=input.device)
    square = ops.cat([input.narrow(-1, 0, k), rest], -1)
    q = _complex_factors.linalg_householder_product(square, tau)
    if transpose:
        q = q.mH
    return deliver("ormqr", q @ other if left else other @ q, out)  # type: ignore[no-any-return]
