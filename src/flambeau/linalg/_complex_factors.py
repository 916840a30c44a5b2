"""Complex triangles, orthonormal columns, spectra and functions: the ops of `ops/linalg.yaml` of these names, for real and complex
matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau._C import AutogradError, Tensor, ops
from flambeau.linalg import _lapack_arrays as arrays
from flambeau.linalg._complex_ops import (
    as_array,
    as_column,
    as_tensor,
    beside,
    check_gauge,
    gaps_of,
    halved_hermitian,
    over,
    refuse,
    scaled,
    solved,
    with_diagonal,
)
from flambeau.linalg._leading import OverLeadingAxes, at_once

_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order {} is not "
    "positive-definite)."
)


# ---------------------------------------------------------------------------------------- triangles and orthonormal columns


class _Cholesky(OverLeadingAxes):
    """L and info; the gradient is Hermitian, as A is (Murray, arXiv:1602.07527)."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        L, info = (as_tensor(a) for a in arrays.cholesky(as_array(A)))
        ctx.save_for_backward(L)
        ctx.mark_non_differentiable(info)
        return L, info

    @staticmethod
    def backward(ctx: Any, dL: Tensor, _: Any) -> Tensor:
        (L,) = ctx.saved_tensors
        middle = halved_hermitian(ops.tril(L.mH @ dL))
        return solved(L, solved(L.mH, middle)[0], False)[0] / 2


@beside(0)
def linalg_cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    L, info = _Cholesky.apply(A.mH if upper else A)
    if check_errors:
        refuse("linalg.cholesky", info, _NOT_POSITIVE)
    return L.mH if upper else L, info


class _QR(OverLeadingAxes):
    """Q and R with a real diagonal of R."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, mode: Any) -> Any:
        ctx.mode, ctx.columns = mode, A.shape[-1]
        if mode == "r":
            Q, R = ops.empty((0,), dtype=A.dtype), as_tensor(arrays.by_numpy(np.linalg.qr, as_array(A), "r"))
        else:
            Q, R = map(as_tensor, arrays.by_numpy(np.linalg.qr, as_array(A), mode))
        ctx.save_for_backward(Q, R)
        return Q, R

    @staticmethod
    def backward(ctx: Any, dQ: Tensor, dR: Tensor) -> Any:
        """(dQ + Q H(triu(dR R^H - Q^H dQ))) R^-H (Walter and Lehmann, arXiv:1001.1654); columns beyond m are Q times R's."""
        Q, R = ctx.saved_tensors
        if ctx.mode == "r":
            raise AutogradError("linalg.qr: the derivative depends on Q, which mode = 'r' does not compute; use mode = 'reduced'")
        m, n = Q.shape[-2], ctx.columns
        if ctx.mode == "complete" and m > n:
            given = f"A has {m} rows and {n} columns"
            raise AutogradError(f"linalg.qr: {given}, and mode = 'complete' has no derivative there; use mode = 'reduced'")
        k = min(m, n)
        beyond = dR[..., k:]
        if n > m:
            dQ = dQ + Q @ R[..., k:] @ beyond.mH
        middle = ops.triu(dR[..., :k] @ R[..., :k].mH - Q.mH @ dQ)
        dA = solved(R[..., :k].mH, dQ + Q @ halved_hermitian(middle), False)[0]
        return (ops.cat([dA, Q @ beyond], -1) if n > m else dA), None


@beside(0, 1)
def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    return _QR.apply(A, mode)


@beside(0, 1)
@at_once
def linalg_geqrf(A: Tensor) -> Any:
    reflectors, tau = arrays.by_numpy(np.linalg.qr, as_array(A), "raw")
    return as_tensor(np.swapaxes(reflectors, -2, -1)), as_tensor(tau)


@beside(0)
def linalg_householder_product(a: Tensor, tau: Tensor) -> Any:
    one = ops.eye(*a.shape[-2:], dtype=a.dtype, device=a.device)
    v = ops.tril(a, -1) + one
    q = one.expand(a.shape)
    for k in range(tau.shape[-1] - 1, -1, -1):
        mine = v[..., k : k + 1]
        q = q - scaled(tau[..., k], mine @ (mine.mH @ q))
    return q


# ---------------------------------------------------------------------------------------- spectra


class _Eigh(OverLeadingAxes):
    """w (real, ascending) and V of Hermitian matrices; V is empty without `vectors`."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, UPLO: str, vectors: bool) -> Any:
        a, side = as_array(A), UPLO.upper()
        if vectors:
            w, V = arrays.spectrum("linalg.eigh", np.linalg.eigh, a, side)
        else:
            w, V = arrays.spectrum("linalg.eigh", np.linalg.eigvalsh, a, side), np.empty(0, a.dtype)
        w, V = as_tensor(w), as_tensor(V)
        ctx.save_for_backward(w, V)
        return w, V

    @staticmethod
    def backward(ctx: Any, dw: Tensor, dV: Tensor) -> Any:
        w, V = ctx.saved_tensors
        if V.ndim < 2:
            raise AutogradError(
                "linalg.eigh: the derivative depends on eigenvectors, which were not computed; use linalg.eigh or linalg.eigvalsh"
            )
        x = V.mH @ dV
        check_gauge("linalg.eigh", "eigenvectors", ops.diagonal(x, 0, -2, -1).imag)
        return V @ with_diagonal(over(x - x.mH, 2 * gaps_of(w)), dw) @ V.mH, None, None


@beside(1)
def linalg_eigh(A: Tensor, UPLO: str = "L", vectors: bool = True) -> Any:
    return _Eigh.apply(A, UPLO, vectors)


class _SVD(OverLeadingAxes):
    """U, S (real, descending) and Vh; U and Vh are empty without `vectors`."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, full_matrices: bool, vectors: bool) -> Any:
        a = as_array(A)
        if vectors:
            found = arrays.spectrum("linalg.svd", np.linalg.svd, a, full_matrices)
        else:
            none = np.empty(0, a.dtype)
            found = none, arrays.spectrum("linalg.svd", np.linalg.svd, a, compute_uv=False), none
        U, S, Vh = (as_tensor(f) for f in found)
        ctx.save_for_backward(U, S, Vh)
        return U, S, Vh

    @staticmethod
    def backward(ctx: Any, dU: Tensor, dS: Tensor, dVh: Tensor) -> Any:
        """Townsend, Differentiating the singular value decomposition (2016), with the phases of vectors for complex matrices."""
        U, S, Vh = ctx.saved_tensors
        if U.ndim < 2:
            raise AutogradError("linalg.svd: the derivative depends on U and Vh, which were not computed; use linalg.svd or linalg.svdvals")
        k = S.shape[-1]
        u, gu, vh, gv = U[..., :k], dU[..., :k], Vh[..., :k, :], dVh[..., :k, :]
        x, y = u.mH @ gu, vh @ gv.mH
        phases = ops.diagonal(x, 0, -2, -1).imag
        check_gauge("linalg.svd", "singular vectors", phases + ops.diagonal(y, 0, -2, -1).imag)
        row, column = S.unsqueeze(-2), as_column(S)
        gaps = gaps_of(S) * (row + column)
        inner = over(x - x.mH, gaps) * row + over(y - y.mH, gaps) * column
        inner = with_diagonal(inner, ops.complex(dS, phases / ops.masked_fill(S, (S == 0) & (phases == 0), 1)))
        dA = u @ inner @ vh
        if U.shape[-2] > k:
            dA = dA + ((gu - u @ x) / row) @ vh
        if Vh.shape[-1] > k:
            dA = dA + (u / row) @ (gv - (gv @ vh.mH) @ vh)
        return dA, None, None


@beside(0, 2)
def linalg_svd(A: Tensor, full_matrices: bool = True, vectors: bool = True) -> Any:
    return _SVD.apply(A, full_matrices, vectors)


# ---------------------------------------------------------------------------------------- functions of matrices

# Numerator of the [13/13] Pade approximant of e^x, whose denominator has the signs of odd powers turned.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600, 670442572800, 33522128640,
    1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_THETA = 5.371920351148152  # the largest 1-norm for which it is right to double precision


@np.errstate(all="ignore")
def _exponential(a: Any) -> Any:
    """Higham, The scaling and squaring method for the matrix exponential revisited (2005)."""
    if a.size == 0:
        return a
    norms = np.abs(a).sum(-2).max(-1)
    norm = norms[np.isfinite(norms)].max(initial=_THETA)
    squarings = int(np.ceil(np.log2(norm / _THETA)))
    x = a.astype(np.complex128) / 2.0**squarings
    one = np.eye(a.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    b = _PADE
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    y = arrays.solve(even - odd, even + odd)[0]
    for _ in range(squarings):
        y = y @ y
    return y.astype(a.dtype)


class _MatrixExp(OverLeadingAxes):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        ctx.save_for_backward(A)
        return as_tensor(_exponential(as_array(A)))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """The upper right block of exp([[A^H, dy], [0, A^H]])."""
        (A,) = ctx.saved_tensors
        a, n = A.mH, A.shape[-1]
        blocks = ops.cat([ops.cat([a, dy], -1), ops.cat([ops.zeros_like(a), a], -1)], -2)
        return _MatrixExp.apply(blocks)[..., :n, n:]  # type: ignore[no-any-return]


@beside(0)
def linalg_matrix_exp(A: Tensor) -> Any:
    return _MatrixExp.apply(A)


class _PinvValue(OverLeadingAxes):
    """`value`, with the gradient that the pseudoinverse has by A where the rank is constant (Golub and Pereyra, 1973)."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, value: Tensor) -> Tensor:
        y = value.clone()
        ctx.save_for_backward(A, y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        A, y = ctx.saved_tensors
        p, g = y.mH, dy.mH
        left, right = g @ y @ p, p @ y @ g
        return (left - A @ (y @ left)) + (right - (right @ y) @ A) - p @ dy @ p, None


@beside(0)
def linalg_pinv_value(A: Tensor, value: Tensor) -> Any:
    return _PinvValue.apply(A, value)
