"""`torch.distributions.lowrank_multivariate_normal`: what covariances W W^T + D need."""

from __future__ import annotations

from flambeau import linalg
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.distributions.multivariate_normal import (
    _batch_mahalanobis,
    _batch_mv,
)
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal

__all__ = ["LowRankMultivariateNormal", "_batch_mahalanobis", "_batch_mv"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W.

    Shape: W [..., n, m], D [..., n], result [..., m, m].
    """
    m = W.size(-1)
    product = ((W.mT / D.unsqueeze(-2)) @ W).contiguous()
    product.view(-1, m * m)[:, :: m + 1] += 1
    return linalg.cholesky(product)  # type: ignore[no-any-return]


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """log |W W^T + D|."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x."""
    scaled = W.mT / D.unsqueeze(-2)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(scaled, x))
