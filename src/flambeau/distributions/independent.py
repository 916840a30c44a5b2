"""`Independent`: some batch axes of a distribution as axes of its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau import Tensor
from flambeau._errors import NoTensorError
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, size, sum_rightmost


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch axes of `base_distribution` become event axes.

    Raises:
        ValueError: the base has fewer batch axes.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Independent, Normal
        >>> diagonal = Independent(Normal(fl.zeros(4, 3), fl.ones(4, 3)), 1)
        >>> diagonal.batch_shape, diagonal.event_shape, diagonal.log_prob(fl.zeros(4, 3)).shape
        (flambeau.Size([4]), flambeau.Size([3]), flambeau.Size([4]))
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        if not hasattr(base_distribution, "batch_shape"):
            kind = type(base_distribution).__name__
            raise NoTensorError(f"Independent: base_distribution is a {kind}; expected a Distribution")
        axes = len(base_distribution.batch_shape)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise TypeError(f"Independent: reinterpreted_batch_ndims = {reinterpreted_batch_ndims!r}; expected an int")
        if not 0 <= reinterpreted_batch_ndims <= axes:
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims = {reinterpreted_batch_ndims}, but the base has {axes} batch axes; "
                f"expected 0 to {axes}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        keep = axes - reinterpreted_batch_ndims
        event = size(base_distribution.batch_shape[keep:], base_distribution.event_shape)
        super().__init__(base_distribution.batch_shape[:keep], event, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        taken = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(size(batch_shape, taken))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(self._fl_sizes(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(self._fl_sizes(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Independent: the values of events with several axes are not enumerated")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
