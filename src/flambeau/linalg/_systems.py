"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._held import held
from flambeau._out import deliver
from flambeau._results import result
from flambeau.amp.autocast_mode import widens
from flambeau.linalg import _complex_factors, _complex_systems
from flambeau.linalg._arguments import check_tensors

if TYPE_CHECKING:
    from flambeau._C import _linalg_inv_ex_result, _linalg_slogdet_result, _linalg_solve_ex_result


@result("linalg_lstsq")
class LeastSquares(NamedTuple):
    """What `lstsq` returns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The X of A X = B, or of X A = B without `left`, by LU with partial pivoting.

    Shape:
        A [..., n, n], B [..., n, k] or [..., n] or [n] -> as B; batches broadcast

    Raises:
        LinAlgError: A is singular.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.solve(fl.tensor([[2.0, 0.0], [0.0, 4.0]]), fl.tensor([[2.0], [2.0]]))
        tensor([[1.0000],
                [0.5000]])
    """
    return deliver("linalg.solve", _complex_systems.linalg_solve_ex(A, B, left=left, check_errors=True)[0], out)  # type: ignore[no-any-return]


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> _linalg_solve_ex_result:
    """`solve`, and for each matrix the number of the first pivot that is 0, or 0, as `info`."""
    return deliver("linalg.solve_ex", _complex_systems.linalg_solve_ex(A, B, left=left, check_errors=check_errors), out)  # type: ignore[no-any-return]


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """The X of A X = B, or of X A = B without `left`, for the upper or lower triangle of A; nothing else of A is read.

    Args:
        unitriangular: the diagonal of A counts as 1.

    Shape:
        A [..., n, n], B [..., n, k] ([..., k, n] without left) -> as B; batches broadcast
    """
    x = _complex_systems.linalg_solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)
    return deliver("linalg.solve_triangular", x, out)  # type: ignore[no-any-return]


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None) -> Tensor:
    """`solve` with the factors of A that `lu_factor` gave; with `adjoint` of A^H.

    Shape:
        LU [..., n, n], pivots [..., n], B [..., n, k] ([..., k, n] without left) -> as B; batches broadcast
    """
    return deliver("linalg.lu_solve", _complex_systems.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint), out)  # type: ignore[no-any-return]


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse. To solve a system, `solve` is faster and more exact.

    Shape:
        A [..., n, n] -> [..., n, n]

    Raises:
        LinAlgError: A is singular.
    """
    return deliver("linalg.inv", _complex_systems.linalg_inv_ex(A, check_errors=True)[0], out)  # type: ignore[no-any-return]


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> _linalg_inv_ex_result:
    """`inv`, and for each matrix the number of the first pivot that is 0, or 0, as `info`."""
    return deliver("linalg.inv_ex", _complex_systems.linalg_inv_ex(A, check_errors=check_errors), out)  # type: ignore[no-any-return]


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant. Its gradient, the matrix of cofactors, is right for singular matrices, too.

    Shape:
        A [..., n, n] -> [...]
    """
    return deliver("linalg.det", _complex_systems.linalg_det(A), out)  # type: ignore[no-any-return]


def slogdet(A: Tensor, *, out: Any = None) -> _linalg_slogdet_result:
    """The sign of the determinant (complex: a number of modulus 1), and the logarithm of its absolute value, which does not overflow.

    Shape:
        A [..., n, n] -> sign [...], logabsdet [...]
    """
    return deliver("linalg.slogdet", _complex_systems.linalg_slogdet(A), out)  # type: ignore[no-any-return]


def _eps(dtype: _C.dtype) -> float:
    return 2.0**-52 if dtype in (_C.float64, _C.complex128) else 2.0**-23


def tolerance(op: str, S: Tensor, size: int, atol: Any, rtol: Any) -> Tensor:
    """max(atol, rtol * S[..., 0]) by PyTorch's defaults: rtol is eps * size, unless atol is given and positive."""

    def as_tensor(name: str, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value.to(S.dtype)
        if not isinstance(value, (int, float)):
            raise TypeError(f"{op}: {name} = {type(value).__name__}; expected a number or a tensor")
        return ops.full((), float(value), dtype=S.dtype, device=S.device)

    absolute = as_tensor("atol", 0.0 if atol is None else atol)
    eps = _eps(S.dtype)
    if rtol is None:
        relative = ops.where(absolute > 0, 0.0, as_tensor("rtol", eps * size)) if atol is not None else as_tensor("rtol", eps * size)
    else:
        relative = as_tensor("rtol", rtol)
    largest = S.narrow(-1, 0, 1).squeeze(-1) if S.shape[-1] else ops.zeros(S.shape[:-1], dtype=S.dtype, device=S.device)
    return ops.maximum(absolute, relative * largest)


@widens
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Tensor | None = None
) -> Tensor:
    """Moore and Penrose's pseudoinverse: singular values up to max(atol, rtol * the largest) count as 0.

    The gradient is that of matrices of the same rank (Golub and Pereyra, 1973).

    Args:
        rcond: the older name of rtol.
        hermitian: A is symmetric (complex: Hermitian), and its lower triangle is read.
        atol, rtol: numbers, or tensors that broadcast to the batch. rtol is max(m, n) eps unless atol is given.

    Shape:
        A [..., m, n] -> [..., n, m]
    """
    from flambeau.autograd.modes import no_grad

    rtol = rcond if rtol is None else rtol
    _check_matrix("linalg.pinv", A, hermitian)
    with no_grad():
        if hermitian:
            w, v = _complex_factors.linalg_eigh(A)
            size = w.abs()
            least = tolerance("linalg.pinv", size.sort(-1, True)[0], A.shape[-1], atol, rtol).unsqueeze(-1)
            value = (v * _inverse_above(w, size, least).unsqueeze(-2)) @ v.mH
        else:
            value = _by_singular_values("linalg.pinv", A, atol, rtol)[0]
    return deliver("linalg.pinv", _complex_factors.linalg_pinv_value(A, value), out)  # type: ignore[no-any-return]


def _by_singular_values(op: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The pseudoinverse, the singular values, and which of them count."""
    u, s, vh = _complex_factors.linalg_svd(A, False)
    least = tolerance(op, s, max(A.shape[-2:]), atol, rtol).unsqueeze(-1)
    return (vh.mH * _inverse_above(s, s, least).unsqueeze(-2)) @ u.mH, s, s > least


def _by_reflections(A: Tensor, rcond: float | None) -> Tensor | None:
    """The pseudoinverse by QR, R^-1 Q^H, of matrices whose columns are certainly independent; None where any may not be.

    They are where the smallest singular value of R is above `rcond` times the largest, of which bounds are at hand: a matrix's largest
    singular value is at most |R|, and, which is sharper, its square at most |R R^H|; the inverse's tells of the smallest. Asking is a
    value that is read, which a recording that is to be a program and `vmap` do not allow.
    """
    m, n = A.shape[-2:]
    if m < n or n == 0 or A.numel() == 0 or A.is_meta or _C.has_override(A) or _C.graph.watched():
        return None
    Q, R = _complex_factors.linalg_qr(A)
    eye = ops.eye(n, dtype=A.dtype, device=A.device)
    inverse = _complex_systems.linalg_solve_triangular(R, eye.expand(R.shape), upper=True)
    least = m * _eps(A.dtype) if rcond is None else rcond

    def independent(power: int, *factors: Tensor) -> bool:
        sizes = [ops.square(ops.abs(t)).sum((-2, -1)) for t in factors]
        return bool((sizes[0] * sizes[1] * least**power < 1).all().item())

    certain = independent(2, R, inverse) or independent(4, R @ R.mH, inverse @ inverse.mH)
    return inverse @ Q.mH if certain else None


def _inverse_above(v: Tensor, size: Tensor, least: Tensor) -> Tensor:
    kept = size > least
    return ops.where(kept, 1 / ops.where(kept, v, 1.0), 0.0)


def _check_matrix(op: str, A: Tensor, square: bool) -> None:
    check_tensors(op, A=A)
    if A.ndim < 2 or (square and A.shape[-1] != A.shape[-2]):
        if square and A.ndim >= 2:
            raise _C.ShapeError(f"{op}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
        wanted = "square matrices, [..., n, n]" if square else "a tensor with 2 or more dimensions"
        raise _C.ShapeError(f"{op}: A has shape {list(A.shape)}; expected {wanted}")


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@widens
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X with the smallest |A X - B|, and of these with the smallest |X|, by the singular values of A.

    Args:
        rcond: singular values up to this part of the largest count as 0; max(m, n) eps by default.
        driver: LAPACK's name of what is asked for: 'gels' has no rank, 'gelsd' and 'gelss' have singular values, too, and 'gelsy',
            the default, has the rank.

    Shape:
        A [..., m, n], B [..., m, k] or [..., m] -> solution [..., n, k] or [..., n], residuals [..., k] (empty where m <= n or the
        rank is not full), rank [...], singular_values [..., min(m, n)]

    Example:
        >>> import flambeau as fl
        >>> A = fl.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> fl.linalg.lstsq(A, fl.tensor([[1.0], [3.0], [5.0]])).solution
        tensor([[1.0000],
                [2.0000]])
    """
    from flambeau.autograd.modes import no_grad

    kind = "gelsy" if driver is None else driver
    if kind not in _DRIVERS:
        raise _C.ArgumentError(f"linalg.lstsq: driver = {driver!r}; expected None or one of {', '.join(_DRIVERS)}")
    _check_matrix("linalg.lstsq", A, False)
    check_tensors("linalg.lstsq", B=B)
    vector = A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    b = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    if b.ndim < 2 or b.shape[-2] != m or b.dtype is not A.dtype:
        given = f"A is {A.dtype} {list(A.shape)}, B {B.dtype} {list(B.shape)}"
        if b.ndim >= 2 and b.shape[-2] != m:
            raise _C.ShapeError(f"linalg.lstsq: input.size(-2) should match other.size(-2): {given}")
        raise _C.ShapeError(f"linalg.lstsq: {given}; expected [..., m, n] and [..., m, k] of one dtype")
    none = ops.empty((0,), dtype=A.dtype.to_real(), device=A.device)
    with no_grad():
        inverse = _by_reflections(A, rcond) if kind in ("gels", "gelsy") else None
        if inverse is not None:
            S, rank = none, ops.full(A.shape[:-2], n, dtype=_C.int64, device=A.device)
        else:
            inverse, S, counts = _by_singular_values("linalg.lstsq", A, None, rcond)
            rank = counts.sum(-1)
    x = _complex_factors.linalg_pinv_value(A, inverse) @ b
    full = m > n and kind != "gelsy" and (kind == "gels" or bool((held(rank) == n).all().item()))
    residuals = ops.square(ops.abs(A @ x - b) if A.is_complex() else A @ x - b).sum(-2) if full else none
    return LeastSquares(
        x.squeeze(-1) if vector else x,
        residuals,
        ops.empty((0,), dtype=_C.int64) if kind == "gels" else rank,
        S if kind in ("gelsd", "gelss") else none,
    )


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `tensordot(A, ., ind)`: A seen as a matrix of its first `ind` axes by the others.

    Raises:
        ShapeError: the products of both groups of sizes differ.
    """
    check_tensors("linalg.tensorinv", A=A)
    if ind <= 0:
        raise _C.ArgumentError(f"linalg.tensorinv: ind = {ind}; expected ind > 0")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise _C.ShapeError(f"linalg.tensorinv: A has shape {list(A.shape)}, ind = {ind}; expected prod(shape[:ind]) == prod(shape[ind:])")
    found = inv(A.reshape(math.prod(rows), math.prod(columns))).reshape([*columns, *rows])
    return deliver("linalg.tensorinv", found, out)  # type: ignore[no-any-return]


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) == B; the axes `dims` of A are moved to its end first.

    Shape:
        A [*B.shape, *X.shape], B -> X, with prod(B.shape) == prod(X.shape)
    """
    from flambeau._functions import movedim

    check_tensors("linalg.tensorsolve", A=A, B=B)
    if dims is not None:
        A = movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    sizes = A.shape[B.ndim :]
    if math.prod(sizes) != B.numel() or math.prod(A.shape[: B.ndim]) != B.numel():
        given = f"A has shape {list(A.shape)}, B {list(B.shape)}"
        raise _C.ShapeError(f"linalg.tensorsolve: {given}; expected A of as many rows and columns as B has elements")
    x = solve(A.reshape(B.numel(), B.numel()), B.reshape(-1)).reshape(sizes)
    return deliver("linalg.tensorsolve", x, out)  # type: ignore[no-any-return]
