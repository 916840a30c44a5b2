"""Factors of small positive definite matrices, by ops, so that gradients go through them in any order."""

from __future__ import annotations

import math

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops


def cholesky(a: Tensor) -> Tensor:
    """Lower triangular L with L @ L.mT = a, of matrices [.., n, n]; NaN where a matrix is not positive definite.

    Column by column (Cholesky and Banachiewicz). The gradient is that of symmetric matrices.
    """
    n = a.shape[-1]
    a = (a + a.mT) / 2
    columns: list[Tensor] = []
    for j in range(n):
        rest = a[..., j:, j]  # [.., n - j]
        if columns:
            done = ops.stack([column[..., j - i :] for i, column in enumerate(columns)], -1)  # [.., n - j, j]
            rest = rest - (done * done[..., :1, :]).sum(-1)
        columns.append(rest / rest[..., :1].sqrt())
    padded = [fl.nn.functional.pad(column, (i, 0)) for i, column in enumerate(columns)]
    return ops.stack(padded, -1) if padded else a.clone()


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """x with lower @ x = b, of a lower triangular `lower` [.., n, n] and b [.., n, k], row by row."""
    rows: list[Tensor] = []
    for i in range(lower.shape[-1]):
        rest = b[..., i, :]
        if rows:
            rest = rest - (lower[..., i, :i].unsqueeze(-1) * ops.stack(rows, -2)).sum(-2)
        rows.append(rest / lower[..., i, i].unsqueeze(-1))
    return ops.stack(fl.broadcast_tensors(*rows), -2) if rows else b.clone()


def solve_upper(upper: Tensor, b: Tensor) -> Tensor:
    """x with upper @ x = b, of an upper triangular `upper` [.., n, n] and b [.., n, k]."""
    return solve_lower(upper.flip(-2, -1), b.flip(-2)).flip(-2)


def cholesky_solve(b: Tensor, lower: Tensor) -> Tensor:
    """x with lower @ lower.mT @ x = b."""
    return solve_upper(lower.mT, solve_lower(lower, b))


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Lower triangular L with L @ L.mT the inverse of a positive definite matrix."""
    flipped = cholesky(precision.flip(-2, -1))
    return solve_lower(flipped.flip(-2, -1).mT, ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device))


def half_mahalanobis(lower: Tensor, x: Tensor) -> Tensor:
    """Half of the squared length of the solutions y of lower @ y = x, for x [.., n] and lower [.., n, n], broadcast."""
    return solve_lower(lower, x.unsqueeze(-1)).squeeze(-1).square().sum(-1) / 2


def half_log_det(lower: Tensor) -> Tensor:
    """The logarithm of the determinant of a triangular matrix with a positive diagonal: half of its square's."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def is_positive_definite(a: Tensor) -> Tensor:
    """For each matrix whether it has a Cholesky factor."""
    with fl.no_grad():
        return cholesky(a).isfinite().all(-1).all(-1)


def smallest_eigenvalue(a: Tensor) -> Tensor:
    """Of symmetric matrices [.., n, n]; for checks, without gradients."""
    import numpy as np

    values = np.linalg.eigvalsh(a.detach().numpy())[..., 0]
    return fl.from_numpy(np.array(values))


def log_multigamma(a: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of p dimensions."""
    steps = ops.arange(p, dtype=a.dtype, device=a.device) / 2
    return p * (p - 1) / 4 * math.log(math.pi) + ops.lgamma(a.unsqueeze(-1) - steps).sum(-1)


def multidigamma(a: Tensor, p: int) -> Tensor:
    """The derivative of `log_multigamma`."""
    steps = ops.arange(p, dtype=a.dtype, device=a.device) / 2
    return ops.digamma(a.unsqueeze(-1) - steps).sum(-1)
