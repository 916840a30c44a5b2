"""`HalfCauchy`: absolute values of Cauchy draws."""

from __future__ import annotations

import math

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions._half import HalfDistribution
from flambeau.distributions.cauchy import Cauchy


class HalfCauchy(HalfDistribution):
    """|x| for x drawn of Cauchy(0, scale).

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import HalfCauchy
        >>> HalfCauchy(1.0).icdf(fl.tensor(0.5))
        tensor(1.)
    """

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return super().log_prob(fl.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))
