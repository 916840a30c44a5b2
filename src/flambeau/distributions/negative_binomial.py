"""`NegativeBinomial`: successes before a number of failures."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import Shape, broadcast_all, lazy_property
from flambeau.nn import functional as F


class NegativeBinomial(ProbsOrLogits, Distribution):
    """Successes of probability `probs` until `total_count` trials have failed; `total_count` need not be whole.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.

    Example:
        >>> from flambeau.distributions import NegativeBinomial
        >>> NegativeBinomial(3.0, 0.5).mean
        tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_given("NegativeBinomial", probs, logits)
        count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.to(given.dtype)
        self._fl_set_given(None if probs is None else given, given)
        super().__init__(given.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        return Gamma(self.total_count, ops.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with fl.no_grad():
            return ops.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        odds = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = -ops.lgamma(self.total_count + value) + ops.lgamma(1.0 + value) + ops.lgamma(self.total_count)
        # Without failures to wait for there are no successes: log 1, where lgamma would give inf - inf.
        return odds - ways.masked_fill(self.total_count + value == 0, 0.0)
