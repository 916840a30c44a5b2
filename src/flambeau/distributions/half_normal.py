"""`HalfNormal`: absolute values of normal draws."""

from __future__ import annotations

import math

from flambeau import Tensor
from flambeau.distributions._half import HalfDistribution
from flambeau.distributions.normal import Normal


class HalfNormal(HalfDistribution):
    """|x| for x drawn of Normal(0, scale).

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import HalfNormal
        >>> HalfNormal(1.0).icdf(fl.tensor(0.5))
        tensor(0.6745)
    """

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)
