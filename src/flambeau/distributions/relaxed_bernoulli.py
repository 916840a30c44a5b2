"""`RelaxedBernoulli`: values between 0 and 1 that tend to its ends."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import SigmoidTransform
from flambeau.distributions.utils import Shape, broadcast_all, checked_number, clamp_probs


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The logit of a `RelaxedBernoulli` draw.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_given("LogitRelaxedBernoulli", probs, logits)
        self.temperature = checked_number("LogitRelaxedBernoulli", "temperature", temperature)
        (given,) = broadcast_all(logits if probs is None else probs)
        self._fl_set_given(None if probs is None else given, given)
        super().__init__(given.size(), validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new.temperature = self.temperature

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ops.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        y = logits - value * self.temperature
        return ops.log(fl.as_tensor(self.temperature)) + y - 2 * fl.nn.functional.softplus(y)


class RelaxedBernoulli(TransformedDistribution):
    """A differentiable relaxation of `Bernoulli` (Maddison et al., "The Concrete Distribution", ICLR 2017).

    Args:
        temperature: the lower, the nearer are draws to 0 and 1.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import RelaxedBernoulli
        >>> RelaxedBernoulli(fl.tensor(0.5), probs=fl.tensor([0.1, 0.9])).rsample().shape
        flambeau.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedBernoulli, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self) -> Any:
        """How far draws are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds of a 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of a 1."""
        return self.base_dist.probs
