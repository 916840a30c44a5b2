"""`Binomial`: successes of a number of trials."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all


class Binomial(ProbsOrLogits, Distribution):
    """Successes of `total_count` trials that succeed with probability `probs`.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.

    Example:
        >>> from flambeau.distributions import Binomial
        >>> Binomial(10, 0.5).mean
        tensor(5.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_given("Binomial", probs, logits)
        count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.to(given.dtype)
        self._fl_set_given(None if probs is None else given, given)
        super().__init__(given.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ops.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with fl.no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        # k logit - n log(1 + exp(logit)), without an overflow
        above = (self.logits.clamp(min=0) + self.logits - self.logits.clamp(max=0)) / 2
        return value * self.logits + ways - n * above - n * ops.log1p(ops.exp(-ops.abs(self.logits)))

    def _fl_one_count(self) -> int:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"Binomial: total_count = {self.total_count}; values are enumerated for one count in all batches")
        return count

    def entropy(self) -> Tensor:
        self._fl_one_count()
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(ops.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(1 + self._fl_one_count(), dtype=self._param.dtype, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values
