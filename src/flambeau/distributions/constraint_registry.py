"""Transforms from unconstrained numbers to a constraint: `biject_to` and `transform_to`.

`biject_to(constraint)` is a bijection with a Jacobian, as Hamiltonian Monte Carlo wants it; `transform_to(constraint)`
may have more parameters than it needs, as optimizers like it.

Example:
    >>> import flambeau as fl
    >>> from flambeau.distributions import Normal, transform_to
    >>> transform_to(Normal.arg_constraints["scale"])(fl.zeros(2))
    tensor([1., 1.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.distributions import constraints, transforms
from flambeau.distributions.transforms import Transform
from flambeau.distributions.utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Which function makes the transform for a class of constraints."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Notes a function from a constraint to its transform; without one, returns a decorator.

        Raises:
            TypeError: `constraint` is neither a class of constraints nor one of its objects.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"register: constraint = {constraint!r}; expected a class of constraints, or one of its objects")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform for a constraint.

        Raises:
            NotImplementedError: none is known.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints: no transform to them is known; register one"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(constraint: Any) -> Callable[[Factory], Factory]:
    """Registers one function for both."""

    def note(factory: Factory) -> Factory:
        biject_to.register(constraint, factory)
        transform_to.register(constraint, factory)
        return factory

    return note


@_both(constraints.real)
def _to_real(constraint: Any) -> Transform:
    return transforms.identity_transform


def _register_composed(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others, whose transforms the same registry knows."""

    @registry.register(constraints.independent)
    def to_independent(constraint: Any) -> Transform:
        return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def to_cat(constraint: Any) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def to_stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_register_composed(biject_to)
_register_composed(transform_to)


@_both(constraints.greater_than)
@_both(constraints.greater_than_eq)
def _to_greater(constraint: Any) -> Transform:
    rise = transforms.ExpTransform()
    if is_number(constraint.lower_bound) and constraint.lower_bound == 0:
        return rise
    return transforms.ComposeTransform([rise, transforms.AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _to_less(constraint: Any) -> Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval)
@_both(constraints.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.simplex)
def _onto_simplex(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _to_simplex(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()
