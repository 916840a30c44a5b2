"""`Geometric`: failures before the first success."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all
from flambeau.nn import functional as F


class Geometric(ProbsOrLogits, Distribution):
    """The number of failures before the first success of trials that succeed with probability `probs`.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither, or a probability of 0.

    Example:
        >>> from flambeau.distributions import Geometric
        >>> Geometric(0.2).mean
        tensor(4.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_given("Geometric", probs, logits)
        (given,) = broadcast_all(logits if probs is None else probs)
        self._fl_set_given(None if probs is None else given, given)
        super().__init__(given.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((given > 0).all()):
            raise ValueError(f"Geometric: Expected parameter probs to be positive, 0 < probs <= 1, but found invalid values: {given}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with fl.no_grad():
            waiting = ops.empty(shape, dtype=self.probs.dtype, device=self.probs.device).exponential_()
            return (waiting / -(-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failures = ops.xlogy(value, 1 - probs) if bool((probs == 1).any()) else value * (-probs).log1p()
        return failures + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
