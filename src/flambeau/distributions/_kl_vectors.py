"""Divergences between distributions of vectors, and between those that are made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions._matrices import half_log_det, half_mahalanobis, solve_lower
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.independent import Independent
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.multivariate_normal import MultivariateNormal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.utils import size, sum_rightmost


def _exponential_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normaliser (Nielsen and Nock, ICIP 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence: of exponential families {type(p).__name__} and {type(q).__name__}, which are two; register one for them"
        )
    theta_p = [v if v.requires_grad else v.detach().requires_grad_() for v in p._natural_params]
    theta_q = q._natural_params
    with fl.enable_grad():
        log_normalizer = p._log_normalizer(*theta_p)
        slopes = fl.autograd.grad(log_normalizer.sum(), theta_p, create_graph=True)
        result = q._log_normalizer(*theta_q) - log_normalizer
        for a, b, slope in zip(theta_p, theta_q, slopes, strict=True):
            result = result - sum_rightmost((b - a) * slope, a.ndim - len(p.batch_shape))
    wanted = fl.is_grad_enabled() and any(v.requires_grad for v in (*p._natural_params, *theta_q))
    return result if wanted else result.detach()


def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = ops.lgamma(total) - ops.lgamma(b.sum(-1)) - (ops.lgamma(a) - ops.lgamma(b)).sum(-1)
    return norms + ((a - b) * (ops.digamma(a) - ops.digamma(total).unsqueeze(-1))).sum(-1)


def _factors(p: Any) -> list[Tensor]:
    """Matrices F with the covariance as the sum of F @ F.mT."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p.cov_factor, fl.diag_embed(p.cov_diag.sqrt())]
    return [p.scale_tril]


def _half_det(p: Any) -> Tensor:
    return p._fl_half_log_det() if isinstance(p, LowRankMultivariateNormal) else half_log_det(p.scale_tril)


def _multivariate_normal(p: Any, q: Any) -> Tensor:
    """(tr(inv(S_q) S_p) + |mu_q - mu_p|^2 in the metric of S_q - n) / 2 + (log det S_q - log det S_p) / 2."""
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: of normal vectors of shapes {list(p.event_shape)} and {list(q.event_shape)}; expected one shape"
        )
    lower: Tensor = q.scale_tril
    whole: Any = 0.0
    for factor in _factors(p):
        batch = fl.broadcast_shapes(tuple(lower.shape[:-2]), tuple(factor.shape[:-2]))
        wide = lower.expand(size(batch, lower.shape[-2:])), factor.expand(size(batch, factor.shape[-2:]))
        whole = whole + solve_lower(*wide).square().sum([-2, -1])
    return _half_det(q) - _half_det(p) + (whole - p.event_shape[0]) / 2 + half_mahalanobis(lower, q.loc - p.loc)


def _independent(p: Independent, q: Independent) -> Tensor:
    from flambeau.distributions.kl import kl_divergence

    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"kl_divergence: of Independent distributions with {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} axes; "
            "expected as many"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    from flambeau.distributions.kl import kl_divergence

    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"kl_divergence: of distributions with the transforms {p.transforms} and {q.transforms}; expected equal ones"
        )
    return kl_divergence(p.base_dist, q.base_dist)


def divergences() -> dict[tuple[type, type], Callable[[Any, Any], Tensor]]:
    """Functions by the types of p and q."""
    normals = (MultivariateNormal, LowRankMultivariateNormal)
    return {
        (Dirichlet, Dirichlet): _dirichlet,
        (ExponentialFamily, ExponentialFamily): _exponential_family,
        (Independent, Independent): _independent,
        (TransformedDistribution, TransformedDistribution): _transformed,
        **{(p, q): _multivariate_normal for p in normals for q in normals},
    }
