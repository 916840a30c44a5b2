"""`Transform`, its inverse, and compositions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from flambeau import Size, Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.utils import Shape, lazy_property, sum_rightmost


class Transform:
    """Base class: a subclass defines `_call`, `_inverse`, `log_abs_det_jacobian`, `domain` and `codomain`.

    Args:
        cache_size: 1 keeps the last pair (x, y), so that the inverse of what was just computed is x itself.

    Attributes:
        bijective: whether t.inv(t(x)) == x everywhere.
        sign: +1 or -1 for a rising or falling function of numbers.

    Raises:
        ValueError: a `cache_size` that is neither 0 nor 1.
    """

    bijective: bool = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size = {cache_size}; expected 0 or 1")
        self._cache_size = cache_size
        self._inv: weakref.ref[Transform] | None = None  # which holds this one, so that it is made again where nobody else held it
        self._cached_x_y: tuple[Tensor | None, Tensor | None] = (None, None)
        super().__init__()  # a transform may be a Module, too

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """How many last axes make one event, where that is one number for both sides."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError(
            f"{type(self).__name__}: events have {self.domain.event_dim} axes before and {self.codomain.event_dim} after; "
            "use .domain.event_dim or .codomain.event_dim"
        )

    @property
    def inv(self) -> Transform:
        """The inverse, whose inverse is this object."""
        inv = None if self._inv is None else self._inv()
        if inv is None:
            inv = _InverseTransform(self)
            self._inv = weakref.ref(inv)
        return inv

    @property
    def sign(self) -> Any:
        """+1 or -1 for a rising or falling function of numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not define sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with this size of cache."""
        if self._cache_size == cache_size:
            return self
        raise NotImplementedError(f"{type(self).__name__} does not define with_cache")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if self._cache_size == 0:
            return self._call(x)
        old_x, old_y = self._cached_x_y
        if old_y is not None and x is old_x:
            return old_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        old_x, old_y = self._cached_x_y
        if old_x is not None and y is old_y:
            return old_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|, summed over the axes of an event."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of y for an x of this shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of x for a y of this shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, which holds the cache of both."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform  # type: ignore[assignment]

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, the first one first.

    Args:
        parts: the transforms; none give the identity.
        cache_size: 1 gives a cache to each part.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        axes = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            axes = max(axes + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _with_axes(self.parts[0].domain, axes)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        axes = self.parts[0].domain.event_dim
        for part in self.parts:
            axes = max(axes + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _with_axes(self.parts[-1].codomain, axes)

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        inv = None if self._inv is None else self._inv()
        if inv is None:
            inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inv)
            inv._inv = weakref.ref(self)
        return inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        axes = self.domain.event_dim
        total: Any = 0
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            total = total + sum_rightmost(part.log_abs_det_jacobian(before, after), axes - part.domain.event_dim)
            axes += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


def _with_axes(constraint: Any, axes: int) -> Any:
    """The constraint on events of `axes` axes, which are at least its own."""
    more = axes - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


def check_event(name: str, shape: Shape, axes: int) -> None:
    """Refuses a shape with fewer axes than an event."""
    if len(shape) < axes:
        raise ValueError(f"{name}: the shape {list(Size(shape))} has too few axes; expected at least {axes}")


identity_transform = ComposeTransform([])
