"""`Gamma`: sums of waiting times."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import Shape, broadcast_all


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and `rate`.

    Draws are differentiable by implicit reparameterisation (Figurnov et al., NeurIPS 2018).

    Example:
        >>> from flambeau.distributions import Gamma
        >>> Gamma(3.0, 2.0).mean
        tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        draws = ops.standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return draws.clamp(min=fl.finfo(draws.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        value = fl.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - ops.lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - ops.log(self.rate) + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        x = self.rate * value
        return ops.gamma_cdf(*fl.broadcast_tensors(self.concentration.to(x.dtype), x))

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x + 1) + (x + 1) * ops.log(-y.reciprocal())
