"""`LogisticNormal`: normal draws on a simplex."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.normal import Normal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import StickBreakingTransform
from flambeau.distributions.utils import Shape


class LogisticNormal(TransformedDistribution):
    """Simplexes of n + 1 parts that sticks broken by n normal draws give.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import LogisticNormal
        >>> LogisticNormal(fl.zeros(3), fl.ones(3)).sample().shape
        flambeau.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def loc(self) -> Tensor:
        """The mean before the transform."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation before the transform."""
        return self.base_dist.base_dist.scale
