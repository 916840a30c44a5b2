"""`GeneralizedPareto`: excesses over a threshold."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution from `loc` on; its tail is 1 / x^(1 / concentration), or ends where that is below 0.

    Example:
        >>> from flambeau.distributions import GeneralizedPareto
        >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
        tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, fl.inf))

    def _fl_is_zero(self) -> Tensor:
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _fl_tail_length(self, log_survival: Tensor) -> Tensor:
        """The value whose probability to be surpassed is exp(log_survival), in units of scale from loc."""
        zero = self._fl_is_zero()
        safe = ops.where(zero, ops.ones_like(self.concentration), self.concentration)
        return ops.where(zero, -log_survival, ops.expm1(-safe * log_survival) / safe)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._fl_log_survival(value)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return self.cdf(value).log()

    def _fl_log_survival(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        zero = self._fl_is_zero()
        safe = ops.where(zero, ops.ones_like(self.concentration), self.concentration)
        return ops.where(zero, -z, -ops.log1p(safe * z) / safe)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (1 + self.concentration) * self._fl_log_survival(value) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -ops.expm1(self._fl_log_survival(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * self._fl_tail_length(ops.log1p(-value))

    @property
    def mean(self) -> Tensor:
        return ops.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), fl.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return ops.where(c < 0.5, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), fl.inf)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
