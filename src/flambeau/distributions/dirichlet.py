"""`Dirichlet`: draws of probabilities."""

from __future__ import annotations

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import Shape, checked_tensor


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the simplex of the last axis of `concentration` [.., n].

    Raises:
        ValueError: `concentration` has no axis.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Dirichlet
        >>> Dirichlet(fl.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if checked_tensor("Dirichlet", "concentration", concentration).ndim < 1:
            raise ValueError("Dirichlet: `concentration` parameter must be at least one-dimensional")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return ops.dirichlet_draw(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return ops.xlogy(a - 1.0, value).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(-1)
        corner = fl.nn.functional.one_hot(mode.nan_to_num(0.0).argmax(-1), above.shape[-1]).to(mode.dtype)
        return ops.where(flat.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        n = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        of_each = ((self.concentration - 1.0) * ops.digamma(self.concentration)).sum(-1)
        return ops.lgamma(self.concentration).sum(-1) - ops.lgamma(total) - (n - total) * ops.digamma(total) - of_each

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        a = natural_params[0] + 1
        return a.lgamma().sum(-1) - ops.lgamma(a.sum(-1))

    @property
    def _mean_carrier_measure(self) -> float:
        return 0
