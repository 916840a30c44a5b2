"""`ContinuousBernoulli`: values between 0 and 1, instead of one of them."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import Shape, broadcast_all, checked_number, clamp_probs


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Density proportional to probs^x (1 - probs)^(1 - x) on [0, 1] (Loaiza-Ganem and Cunningham, NeurIPS 2019).

    Args:
        lims: between these, around 1/2, where the formulas divide 0 by 0, series are used.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither, or a probability outside of [0, 1].

    Example:
        >>> from flambeau.distributions import ContinuousBernoulli
        >>> ContinuousBernoulli(0.5).variance
        tensor(0.0833)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ) -> None:
        one_given("ContinuousBernoulli", probs, logits)
        (given,) = broadcast_all(logits if probs is None else probs)
        if probs is not None:
            # before they are clamped, which would make them pass
            if validate_args is not None and not bool(self.arg_constraints["probs"].check(given).all()):
                raise ValueError(f"ContinuousBernoulli: probs = {given}; expected values between 0 and 1")
            given = clamp_probs(given)
        self._fl_set_given(None if probs is None else given, given)
        low, high = lims
        self._lims = checked_number("ContinuousBernoulli", "lims[0]", low), checked_number("ContinuousBernoulli", "lims[1]", high)
        super().__init__(given.size(), validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new._lims = self._lims

    def _fl_far_from_half(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _fl_safe_probs(self) -> Tensor:
        """Probabilities where they are far from 1/2, the lower limit elsewhere."""
        return ops.where(self._fl_far_from_half(), self.probs, self._lims[0])

    def _fl_log_norm(self) -> Tensor:
        """The logarithm of the constant that makes the density integrate to 1."""
        p = self._fl_safe_probs()
        log_odds = (ops.log1p(-p) - ops.log(p)).abs()
        exact = ops.log(log_odds) - ops.log((1 - 2 * p).abs())
        x = (self.probs - 0.5).square()
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return ops.where(self._fl_far_from_half(), exact, series)

    @property
    def mean(self) -> Tensor:
        p = self._fl_safe_probs()
        exact = p / (2.0 * p - 1.0) + 1.0 / (ops.log1p(-p) - ops.log(p))
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x
        return ops.where(self._fl_far_from_half(), exact, series)

    @property
    def variance(self) -> Tensor:
        p = self._fl_safe_probs()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / (ops.log1p(-p) - ops.log(p)).square()
        x = (self.probs - 0.5).square()
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ops.where(self._fl_far_from_half(), exact, series)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross_entropy = fl.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._fl_log_norm() - cross_entropy

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._fl_safe_probs()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = ops.where(self._fl_far_from_half(), exact, value)
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._fl_safe_probs()
        exact = (ops.log1p(-p + value * (2.0 * p - 1.0)) - ops.log1p(-p)) / (ops.log(p) - ops.log1p(-p))
        return ops.where(self._fl_far_from_half(), exact, value)

    def entropy(self) -> Tensor:
        log1m = ops.log1p(-self.probs)
        return self.mean * (log1m - ops.log(self.probs)) - self._fl_log_norm() - log1m

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = ops.where(far, x, self._lims[0] - 0.5)
        exact = ops.log((safe.exp() - 1).abs()) - ops.log(safe.abs())
        return ops.where(far, exact, 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0)
