"""`MixtureSameFamily`: draws of one of several distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, size


class MixtureSameFamily(Distribution):
    """A draw of one of the k components that the last batch axis of `component_distribution` has.

    Args:
        mixture_distribution: a `Categorical` over the components, [.., k].

    Raises:
        ValueError: `mixture_distribution` is no Categorical, `component_distribution` no distribution, or their batch shapes
            or numbers of components differ.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Categorical, MixtureSameFamily, Normal
        >>> two = MixtureSameFamily(Categorical(fl.ones(2)), Normal(fl.tensor([-1.0, 1.0]), 1.0))
        >>> two.mean, two.variance
        (tensor(0.), tensor(2.))
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "MixtureSameFamily: The Mixture distribution needs to be an instance of Categorical, "
                f"got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "MixtureSameFamily: The Component distribution needs to be an instance of Distribution, "
                f"got {type(component_distribution).__name__}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        batch = component_distribution.batch_shape
        if not batch:
            raise ValueError("MixtureSameFamily: component_distribution has no batch axis; expected one of components")
        for a, b in zip(reversed(mixture_distribution.batch_shape), reversed(batch[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"MixtureSameFamily: the batch shapes {list(mixture_distribution.batch_shape)} of the mixture and {list(batch[:-1])} "
                    "of the components (without their last axis) do not fit"
                )
        count = mixture_distribution.logits.shape[-1]
        if count != batch[-1]:
            raise ValueError(
                f"MixtureSameFamily: `mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({batch[-1]})"
            )
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand(size(batch_shape, (self._num_component,)))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component is drawn from."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components along the last batch axis."""
        return self._component_distribution

    def _fl_weights(self) -> Tensor:
        """Probabilities of the components, [.., k, 1, ..] with the axes of an event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._fl_weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        axis = -1 - self._event_ndims
        inside = (self._fl_weights() * self._component_distribution.variance).sum(axis)
        away = (self._component_distribution.mean - self.mean.unsqueeze(axis)).square()
        return inside + (self._fl_weights() * away).sum(axis)

    def cdf(self, x: Tensor) -> Tensor:  # type: ignore[override]
        of_each = self._component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (of_each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:  # type: ignore[override]
        if self._validate_args:
            self._validate_sample(x)
        of_each = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))  # [.., k]
        return ops.logsumexp(of_each + ops.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with fl.no_grad():
            sample_shape = self._fl_sizes(sample_shape)
            axis = len(sample_shape) + len(self.batch_shape)
            component = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            draws = self._component_distribution.sample(sample_shape)  # [.., k, *event_shape]
            index = component.reshape(*component.shape, *[1] * (1 + self._event_ndims))
            index = index.expand(*component.shape, 1, *self.event_shape)
            return ops.gather(draws, axis, index).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
