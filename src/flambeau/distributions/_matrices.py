"""Factors of positive definite matrices, their quadratic forms, and functions of several dimensions."""

from __future__ import annotations

import math

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """x with lower @ x = b, of a lower triangular `lower` [.., n, n] and b [.., n, k]."""
    return fl.linalg.solve_triangular(lower, b, upper=False)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Lower triangular L with L @ L.mT the inverse of a positive definite matrix."""
    flipped = fl.linalg.cholesky(precision.flip(-2, -1))
    return solve_lower(flipped.flip(-2, -1).mT, ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device))


def half_mahalanobis(lower: Tensor, x: Tensor) -> Tensor:
    """Half of the squared length of the solutions y of lower @ y = x, for x [.., n] and lower [.., n, n], broadcast."""
    if lower.ndim == 2:  # one matrix: one system with many right sides
        y = solve_lower(lower, x.reshape(-1, x.shape[-1]).mT)
        return y.square().sum(-2).reshape(x.shape[:-1]) / 2
    return solve_lower(lower, x.unsqueeze(-1)).squeeze(-1).square().sum(-1) / 2


def half_log_det(lower: Tensor) -> Tensor:
    """The logarithm of the determinant of a triangular matrix with a positive diagonal: half of its square's."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def is_positive_definite(a: Tensor) -> Tensor:
    """For each matrix whether it has a Cholesky factor."""
    return fl.linalg.cholesky_ex(a.detach()).info == 0  # type: ignore[no-any-return]


def smallest_eigenvalue(a: Tensor) -> Tensor:
    """Of symmetric matrices [.., n, n]; for checks, without gradients."""
    return fl.linalg.eigvalsh(a.detach())[..., 0]


def log_multigamma(a: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of p dimensions."""
    steps = ops.arange(p, dtype=a.dtype, device=a.device) / 2
    return p * (p - 1) / 4 * math.log(math.pi) + ops.lgamma(a.unsqueeze(-1) - steps).sum(-1)


def multidigamma(a: Tensor, p: int) -> Tensor:
    """The derivative of `log_multigamma`."""
    steps = ops.arange(p, dtype=a.dtype, device=a.device) / 2
    return ops.digamma(a.unsqueeze(-1) - steps).sum(-1)
