"""`LowRankMultivariateNormal`: a covariance of a few factors and a diagonal."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._matrices import half_log_det, half_mahalanobis, solve_lower
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, checked_tensor, lazy_property, size
from flambeau.linalg import cholesky


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance cov_factor @ cov_factor.mT + diag(cov_diag).

    With n elements and m factors a density costs n m^2 instead of n^3, by the identity of Woodbury and the lemma of the
    determinant.

    Args:
        cov_factor: [.., n, m].
        cov_diag: [.., n], positive.

    Raises:
        ValueError: too few axes, or sizes that do not fit.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import LowRankMultivariateNormal
        >>> LowRankMultivariateNormal(fl.zeros(2), fl.tensor([[1.0], [0.0]]), fl.ones(2)).variance
        tensor([2., 1.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        name = type(self).__name__
        for key, value in (("loc", loc), ("cov_factor", cov_factor), ("cov_diag", cov_diag)):
            checked_tensor(name, key, value)
        n = loc.shape[-1] if loc.ndim else 0
        if loc.ndim < 1:
            raise ValueError(f"{name}: loc must be at least one-dimensional")
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            raise ValueError(f"{name}: cov_factor must be a batch of matrices with shape {n} x m, got {list(cov_factor.shape)}")
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != n:
            raise ValueError(f"{name}: cov_diag has shape {list(cov_diag.shape)}; expected [.., {n}]")
        try:
            batch = fl.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        except (ValueError, RuntimeError) as error:
            raise ValueError(
                f"{name}: loc {list(loc.shape)}, cov_factor {list(cov_factor.shape)} and cov_diag {list(cov_diag.shape)} "
                "have batch axes that do not broadcast"
            ) from error
        self.loc = loc.expand(size(batch, (n,)))
        self.cov_diag = cov_diag.expand(size(batch, (n,)))
        self.cov_factor = cov_factor.expand(size(batch, cov_factor.shape[-2:]))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance(cov_factor, cov_diag)
        super().__init__(batch, (n,), validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Shape) -> None:
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        root = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / root
        return root * cholesky(scaled @ scaled.mT + ops.eye(self._event_shape[0], dtype=root.dtype))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + fl.diag_embed(self.cov_diag)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        a = solve_lower(self._capacitance_tril, self.cov_factor.mT / self.cov_diag.unsqueeze(-2))
        return fl.diag_embed(self.cov_diag.reciprocal()) - a.mT @ a

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        factors = ops.randn(size(shape[:-1], self.cov_factor.shape[-1:], (1,)), dtype=self.loc.dtype, device=self.loc.device)
        noise = ops.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.cov_factor @ factors).squeeze(-1) + self.cov_diag.sqrt() * noise

    def _fl_half_log_det(self) -> Tensor:
        return half_log_det(self._capacitance_tril) + self.cov_diag.log().sum(-1) / 2

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        x = value - self.loc
        inside = (self.cov_factor.mT @ (x / self.cov_diag).unsqueeze(-1)).squeeze(-1)
        half_distance = (x.square() / self.cov_diag).sum(-1) / 2 - half_mahalanobis(self._capacitance_tril, inside)
        return -self._event_shape[0] * math.log(2 * math.pi) / 2 - self._fl_half_log_det() - half_distance

    def entropy(self) -> Tensor:
        return self._event_shape[0] * (1.0 + math.log(2 * math.pi)) / 2 + self._fl_half_log_det()


def _capacitance(factor: Tensor, diagonal: Tensor) -> Tensor:
    """The Cholesky factor of I + W.mT @ inv(D) @ W, [.., m, m]."""
    inner = factor.mT @ (factor / diagonal.unsqueeze(-1))
    return cholesky(inner + ops.eye(factor.shape[-1], dtype=factor.dtype))
