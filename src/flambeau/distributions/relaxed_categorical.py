"""`RelaxedOneHotCategorical`: points of a simplex that tend to its corners."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import ExpTransform
from flambeau.distributions.utils import Shape, broadcast_all, checked_number, clamp_probs


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a `RelaxedOneHotCategorical` draw.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # logarithms of points of a simplex
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = checked_number("ExpRelaxedCategorical", "temperature", temperature)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new.temperature, new._categorical = self.temperature, self._categorical.expand(batch_shape)

    @property
    def param_shape(self) -> fl.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities, which sum to 1."""
        return self._categorical.probs

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = clamp_probs(ops.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = fl.as_tensor(self.temperature)
        log_scale = ops.lgamma(ops.full_like(temperature, float(n))) + temperature.log() * (n - 1)
        score = logits - value * temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A differentiable relaxation of `OneHotCategorical` (Maddison et al., ICLR 2017; Jang et al., ICLR 2017).

    Args:
        temperature: the lower, the nearer are draws to a corner of the simplex.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import RelaxedOneHotCategorical
        >>> RelaxedOneHotCategorical(fl.tensor(0.5), probs=fl.tensor([0.2, 0.3, 0.5])).rsample().shape
        flambeau.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self) -> Any:
        """How far draws are from the corners."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities, which sum to 1."""
        return self.base_dist.probs
