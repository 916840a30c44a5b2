"""`Distribution`: shapes, checks of arguments, and what a subclass defines.

A distribution has a `batch_shape`, that of its parameters, and an `event_shape`, that of one draw; draws have
sample_shape + batch_shape + event_shape, and log-probabilities sample_shape + batch_shape. What is a parameter says
`arg_constraints`, so that checks, `expand` and `repr` need no code of a subclass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import flambeau as fl
from flambeau import Size, Tensor
from flambeau._warn import warn
from flambeau.distributions import constraints
from flambeau.distributions.utils import Shape, all_true, first_outside, lazy_property, size


class Distribution:
    """Base class of distributions.

    Args:
        batch_shape: shape over which parameters are batched.
        event_shape: shape of one draw.
        validate_args: whether arguments are checked; by default they are, unless Python runs with -O.

    Raises:
        ValueError: a parameter violates its constraint.
    """

    has_rsample = False
    _fl_is_ours = False  # in a class of this package True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Asked now: a class may say later that it lives elsewhere.
        cls._fl_is_ours = cls.__module__.startswith("flambeau.distributions.")

    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments where they are not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: value = {value!r}; expected True or False")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape = size(batch_shape)
        self._event_shape = size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._fl_check_parameters()
        super().__init__()  # a distribution may be a Module, too

    def _fl_check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warn(f"{type(self).__name__} does not define arg_constraints; set them to {{}} or pass validate_args=False")
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # one that follows from another
            value = getattr(self, name)
            inside = constraint.check(value)
            if not all_true(inside):
                raise ValueError(
                    f"{type(self).__name__}: Expected parameter {name} of shape {list(value.shape)} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values{first_outside(name, value, inside)}; got {value}"
                )

    # ---------------------------------------------------------------- what a subclass defines

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Mapping[str, constraints.Constraint]:
        """The constraint of each parameter, by its name."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint of draws."""
        raise NotImplementedError(f"{type(self).__name__} does not define support")

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError(f"{type(self).__name__} does not define mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} does not define mode")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} does not define variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws without gradients, [*sample_shape, *batch_shape, *event_shape]."""
        with fl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not define rsample")

    def sample_n(self, n: int) -> Tensor:
        """The old name of `sample((n,))`."""
        warn("sample_n(n) is the old name of sample((n,))", FutureWarning)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw of at most `value`."""
        raise NotImplementedError(f"{type(self).__name__} does not define cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: quantiles."""
        raise NotImplementedError(f"{type(self).__name__} does not define icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis, for all batches in step.

        Args:
            expand: False leaves the batch axes at size 1.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define enumerate_support")

    def entropy(self) -> Tensor:
        """The expectation of -log_prob, in nats."""
        raise NotImplementedError(f"{type(self).__name__} does not define entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    # ---------------------------------------------------------------- what all share

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same distribution for a larger `batch_shape`; its parameters are views.

        Raises:
            NotImplementedError: a subclass that has an `__init__` of its own and no `expand`.
        """
        owner = next((c for c in type(self).__mro__ if c.__dict__.get("_fl_is_ours")), Distribution)
        if owner is Distribution:
            raise NotImplementedError(f"{type(self).__name__} does not define expand")
        new = self._get_checked_instance(owner, _instance)
        for name, constraint in self.arg_constraints.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                event = value.shape[value.ndim - constraint.event_dim :]
                new.__dict__[name] = value.expand(size(batch_shape, event))
        self._fl_expand_more(new, size(batch_shape))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _fl_expand_more(self, new: Any, batch_shape: Size) -> None:
        """Sets in `new` what a distribution keeps beside its parameters."""

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"{type(self).__name__} has an __init__ of its own, unlike its base {cls.__name__}; expected an expand of its own, too"
            )
        return type(self).__new__(type(self))

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        """The shape of draws."""
        return size(self._fl_sizes(sample_shape), self._batch_shape, self._event_shape)

    def _fl_sizes(self, sample_shape: Any) -> Size:
        """How many draws a program asks for; an error names the distribution that it asked.

        Raises:
            TypeError: these are no sizes.
        """
        if isinstance(sample_shape, str) or not isinstance(sample_shape, Iterable):
            name = type(self).__name__
            raise TypeError(f"{name}: sample_shape = {sample_shape!r} is a {type(sample_shape).__name__}; expected a tuple of sizes")
        sizes: Any = sample_shape
        return size(sizes)

    def _validate_sample(self, value: Tensor) -> None:
        """Refuses values whose shape or elements are none of this distribution's draws."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise ValueError(f"{name}: The value argument to log_prob must be a Tensor, got a {type(value).__name__}")
        event = tuple(self._event_shape)
        if tuple(value.shape[value.ndim - len(event) :]) != event:
            raise ValueError(f"{name}: the value has shape {list(value.shape)}; expected the last axes to be the event shape {list(event)}")
        whole = [*self._batch_shape, *event]
        for i, j in zip(reversed(value.shape), reversed(whole), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"{name}: the value has shape {list(value.shape)}; expected one that broadcasts with {whole}")
        try:
            support = self.support
        except NotImplementedError:
            warn(f"{name} does not define support, so that values are not checked; pass validate_args=False")
            return
        inside = support.check(value)
        if not all_true(inside):
            raise ValueError(
                f"{name}: Expected value argument of shape {list(value.shape)} to be within the support ({support!r}), "
                f"but found invalid values{first_outside('value', value, inside)}; got {value}"
            )

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"

