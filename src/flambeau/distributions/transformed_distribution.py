"""`TransformedDistribution`: draws of a distribution that went through transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._errors import NoTensorError
from flambeau.distributions import constraints
from flambeau.distributions._transforms_base import ComposeTransform, Transform
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.independent import Independent
from flambeau.distributions.utils import Shape, size, sum_rightmost


class TransformedDistribution(Distribution):
    """The distribution of t(x) for x drawn of `base_distribution`.

    log p(y) = log p(x) - log |dy / dx| for y = t(x).

    Args:
        transforms: a transform, or a list of them, the first one first.

    Raises:
        ValueError: something that is no transform, or a base whose draws have too few axes for them.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Normal, TransformedDistribution
        >>> from flambeau.distributions.transforms import ExpTransform
        >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(fl.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"TransformedDistribution: transforms must be a Transform or list, but was {transforms!r}")
        transform = ComposeTransform(self.transforms)
        if not hasattr(base_distribution, "batch_shape"):
            kind = type(base_distribution).__name__
            raise NoTensorError(f"TransformedDistribution: base_distribution is a {kind}; expected a Distribution")
        base_shape = size(base_distribution.batch_shape, base_distribution.event_shape)
        axes = len(base_distribution.event_shape)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"TransformedDistribution: draws of the base have shape {list(base_shape)}; expected at least "
                f"{transform.domain.event_dim} axes for {transform!r}"
            )
        shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(shape)
        if expanded != base_shape:  # a base that fits already need not know how to expand
            base_distribution = base_distribution.expand(expanded[: len(expanded) - axes])
        more = transform.domain.event_dim - axes
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        change = transform.codomain.event_dim - transform.domain.event_dim
        cut = len(shape) - max(transform.codomain.event_dim, axes + change)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        shape = ComposeTransform(self.transforms).inverse_shape(size(batch_shape, self.event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with fl.no_grad():
            return self._fl_transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._fl_transformed(self.base_dist.rsample(sample_shape))

    def _fl_transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        axes = len(self.event_shape)
        total: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), axes - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), axes - len(self.base_dist.event_shape))

    def _fl_sign(self) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Probabilities as they are, or from the other end where the transforms fall."""
        sign = self._fl_sign()
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._fl_transformed(self.base_dist.icdf(self._monotonize_cdf(value)))
