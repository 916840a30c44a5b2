"""Complex systems, factors by LU, and determinants: the ops of `ops/linalg.yaml` of these names, for real and complex matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau._C import Tensor, ops
from flambeau.linalg import _lapack_arrays as arrays
from flambeau.linalg._complex_ops import (
    as_array,
    as_column,
    as_tensor,
    beside,
    broadcast,
    eye_like,
    refuse,
    scaled,
    solved,
)
from flambeau.linalg._leading import OverLeadingAxes

_SINGULAR = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
_UNSOLVED = "The solver failed because the input matrix is singular."
_ZERO_PIVOT = "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero."


@beside(0)
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = B.ndim == 1 or (A.ndim == B.ndim + 1 and B.shape == A.shape[:-1])
    x, info = solved(A, as_column(B) if vector else B, left)
    if check_errors:
        refuse("linalg.solve", info, _UNSOLVED)
    return x.squeeze(-1) if vector else x, info


@beside(0)
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    x, info = solved(A, eye_like(A))
    if check_errors:
        refuse("linalg.inv", info, _SINGULAR)
    return x, info


@beside(0)
def linalg_solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    if unitriangular:
        A = (ops.triu(A, 1) if upper else ops.tril(A, -1)) + eye_like(A)
    else:
        A = ops.triu(A) if upper else ops.tril(A)
    return solved(A, B, left)[0]


# ---------------------------------------------------------------------------------------- LU


def _permuted(x: Tensor, pivots: Tensor, back: bool = False) -> Tensor:
    """P^T x, or P x with back."""
    order = ops.linalg_pivot_order(pivots, x.shape[-2])
    order = order.argsort() if back else order
    return ops.gather(x, x.ndim - 2, as_column(order).expand(x.shape))


class _LU(OverLeadingAxes):
    """LU, pivots and info."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        LU, pivots, info = (as_tensor(a) for a in arrays.factor(as_array(A)))
        ctx.save_for_backward(LU, pivots)
        ctx.mark_non_differentiable(pivots, info)
        return LU, pivots, info

    @staticmethod
    def backward(ctx: Any, dLU: Tensor, *_: Any) -> Any:
        """With k = min(m, n), C the corner [k, k]: P L^-H (tril(L^H dL, -1) + triu(dU U^H)) U^-H, less what the rest of L or U says."""
        LU, pivots = ctx.saved_tensors
        m, n = LU.shape[-2:]
        k = min(m, n)
        corner, g = LU[..., :k, :k], dLU[..., :k, :k]
        L, U = ops.tril(corner, -1) + eye_like(corner), ops.triu(corner)
        lower, upper = L.mH @ ops.tril(g, -1), ops.triu(g) @ U.mH
        if n > m:
            lower = lower - dLU[..., k:] @ LU[..., k:].mH
        if m > n:
            upper = upper - LU[..., k:, :].mH @ dLU[..., k:, :]
        dA = solved(L.mH, solved(U.mH, ops.tril(lower, -1) + ops.triu(upper), False)[0])[0]
        if n > m:
            dA = ops.cat([dA, solved(L.mH, dLU[..., k:])[0]], -1)
        if m > n:
            dA = ops.cat([dA, solved(U.mH, dLU[..., k:, :], False)[0]], -2)
        return _permuted(dA, pivots, True)


@beside(0)
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    found = _LU.apply(A)
    if check_errors:
        refuse("linalg.lu_factor", found[2], _ZERO_PIVOT)
    return found


@beside(0)
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    if not left:
        return linalg_lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    LU, B = broadcast(LU, B)
    pivots = pivots.expand(LU.shape[:-1])
    L, U = ops.tril(LU, -1) + eye_like(LU), ops.triu(LU)
    if adjoint:
        return _permuted(solved(L.mH, solved(U.mH, B)[0])[0], pivots, True)
    return solved(U, solved(L, _permuted(B, pivots))[0])[0]


# ---------------------------------------------------------------------------------------- determinants


class _Cofactor(OverLeadingAxes):
    """det(A) A^-T, also of singular matrices: by A = U S Vh each cofactor is a product of the other singular values."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        ctx.save_for_backward(A)
        u, s, vh = arrays.spectrum("linalg.det", np.linalg.svd, as_array(A))
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        phase = arrays.by_numpy(np.linalg.det, u) * arrays.by_numpy(np.linalg.det, vh)
        return as_tensor((phase[..., None, None] * (u.conj() * others[..., None, :]) @ vh.conj()).astype(u.dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """For invertible matrices: conj(det) (tr(g^T conj(X)) X^H - X^H g^T X^H) with X = A^-1."""
        (A,) = ctx.saved_tensors
        x = solved(A, eye_like(A))[0].mH
        det = ops.conj(_Det.apply(A))
        return scaled(det, scaled((g * x).sum((-2, -1)), x) - x @ g.mT @ x)


class _Det(OverLeadingAxes):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        ctx.save_for_backward(A)
        return as_tensor(arrays.by_numpy(np.linalg.det, as_array(A)))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (A,) = ctx.saved_tensors
        return scaled(dy, ops.conj(_Cofactor.apply(A)))


class _SlogDet(OverLeadingAxes):
    """The phase of the determinant and the logarithm of its absolute value: d log det = tr(A^-1 dA) = d logabsdet + i d phase."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        sign, log = (as_tensor(a) for a in arrays.by_numpy(np.linalg.slogdet, as_array(A)))
        ctx.save_for_backward(A, sign)
        return sign, log

    @staticmethod
    def backward(ctx: Any, dsign: Tensor, dlog: Tensor) -> Tensor:
        A, sign = ctx.saved_tensors
        g = ops.complex(dlog, -(ops.conj(dsign) * sign).imag)
        return solved(A.mH, scaled(g, eye_like(A)))[0]


@beside(0)
def linalg_det(A: Tensor) -> Any:
    return _Det.apply(A)


@beside(0)
def linalg_slogdet(A: Tensor) -> Any:
    return _SlogDet.apply(A)
