"""`StudentT`: Student's t."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom around `loc`.

    Example:
        >>> from flambeau.distributions import StudentT
        >>> StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new._chi2 = self._chi2.expand(batch_shape)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.loc, fl.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = ops.where(self.df > 2, self.scale.square() * self.df / (self.df - 2), fl.inf)
        return ops.where(self.df > 1, finite, fl.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = ops.randn(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (noise * ops.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        log_beta = 0.5 * math.log(math.pi) + ops.lgamma(0.5 * self.df) - ops.lgamma(0.5 * (self.df + 1.0))
        norm = self.scale.log() + 0.5 * self.df.log() + log_beta
        return -0.5 * (self.df + 1.0) * ops.log1p(y.square() / self.df) - norm

    def entropy(self) -> Tensor:
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(next_half)
        return self.scale.log() + next_half * (ops.digamma(next_half) - ops.digamma(half)) + 0.5 * self.df.log() + log_beta
