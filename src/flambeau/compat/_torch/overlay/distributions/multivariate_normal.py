"""`torch.distributions.multivariate_normal`: products and distances in batches, and factors of precision matrices."""

from __future__ import annotations

from flambeau import linalg
from flambeau._C import Tensor, ops

__all__ = ["MultivariateNormal"]

from flambeau.distributions.multivariate_normal import MultivariateNormal


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Products of matrices and vectors.

    Shape: bmat [..., m, n], bvec [..., n], result [..., m].
    """
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x^T M^-1 x for M = L L^T.

    Shape: bL [..., n, n], bx [..., n], result [...].
    """
    solved: Tensor = linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
    return solved.square().sum((-2, -1))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The lower factor L of a covariance L L^T = P^-1, without the inverse.

    Shape: P [..., n, n], result the same.
    """
    reversed_factor = linalg.cholesky(P.flip((-2, -1)))
    inverse = reversed_factor.flip((-2, -1)).mT
    eye = ops.eye(P.shape[-1], dtype=P.dtype)
    return linalg.solve_triangular(inverse, eye, upper=False)  # type: ignore[no-any-return]
