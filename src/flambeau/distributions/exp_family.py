"""`ExponentialFamily`: densities exp(<t(x), theta> - F(theta) + k(x))."""

from __future__ import annotations

import flambeau as fl
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import sum_rightmost


class ExponentialFamily(Distribution):
    """Base class of distributions with natural parameters theta, a sufficient statistic t and a log normaliser F.

    A subclass may define `_natural_params`, `_log_normalizer` and `_mean_carrier_measure` (the expectation of k); then
    its entropy, and divergences between two of its kind, follow by derivatives of F (Nielsen and Nock, "Entropies and
    cross-entropies of exponential families", ICIP 2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> float | Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _mean_carrier_measure")

    def entropy(self) -> Tensor:
        """F(theta) - <theta, grad F(theta)> - E[k]."""
        given = self._natural_params
        theta = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        with fl.enable_grad():
            log_normalizer = self._log_normalizer(*theta)
            slopes = fl.autograd.grad(log_normalizer.sum(), theta, create_graph=True)
            result = log_normalizer - self._mean_carrier_measure
            for p, slope in zip(theta, slopes, strict=True):
                result = result - sum_rightmost(p * slope, p.ndim - len(self._batch_shape))
        wanted = fl.is_grad_enabled() and any(p.requires_grad for p in given)
        return result if wanted else result.detach()
