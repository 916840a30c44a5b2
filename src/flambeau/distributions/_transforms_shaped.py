"""Transforms made of others or of shapes: more event axes, another shape, and parts side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import Size, Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._transforms_base import Transform, check_event
from flambeau.distributions.utils import Shape, size, sum_rightmost


class IndependentTransform(Transform):
    """`base_transform` with `reinterpreted_batch_ndims` more axes in an event, over which its Jacobian is summed."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError(f"IndependentTransform: the input has {x.ndim} axes; expected at least {self.domain.event_dim}")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError(f"IndependentTransform: the input has {y.ndim} axes; expected at least {self.codomain.event_dim}")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape of the last axes: `in_shape` becomes `out_shape`.

    Raises:
        ValueError: shapes with different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"ReshapeTransform: in_shape {list(in_shape)} and out_shape {list(out_shape)} have different numbers of elements"
            )

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(size(x.shape[: x.ndim - len(self.in_shape)], self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(size(y.shape[: y.ndim - len(self.out_shape)], self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Shape, old: Size, new: Size) -> Shape:
    check_event("ReshapeTransform", shape, len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"ReshapeTransform: the shape {list(shape)} ends with {list(shape[cut:])}; expected {list(old)}")
    return size(shape[:cut], new)


class _Parts(Transform):
    """Several transforms side by side along an axis."""

    transforms: list[Transform]
    dim: int

    def _fl_set_parts(self, tseq: Sequence[Transform], dim: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(
                f"{type(self).__name__}: All elements of tseq must be Transform instances, got {[type(t).__name__ for t in tseq]}"
            )
        self.transforms = [t.with_cache(self._cache_size) for t in tseq] if self._cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _fl_split(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _fl_join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _fl_each(self, x: Tensor, f: Callable[[Transform, Tensor], Tensor]) -> Tensor:
        return self._fl_join([f(t, part) for t, part in zip(self.transforms, self._fl_split(x), strict=True)])

    def _call(self, x: Tensor) -> Tensor:
        return self._fl_each(x, lambda t, part: t(part))

    def _inverse(self, y: Tensor) -> Tensor:
        return self._fl_each(y, lambda t, part: t.inv(part))


class CatTransform(_Parts):
    """Transforms of pieces of `lengths` (default: 1 each) along axis `dim`, joined as by `cat`.

    Raises:
        AssertionError: something that is no transform, or other numbers of lengths and transforms.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self._fl_set_parts(tseq, dim)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"CatTransform: {len(self.lengths)} lengths for {len(self.transforms)} transforms; expected one each")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of the axis."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _fl_split(self, x: Tensor) -> list[Tensor]:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != self.length:
            raise AssertionError(f"CatTransform: the input has shape {list(x.shape)}; expected {self.length} along axis {self.dim}")
        return list(x.split(self.lengths, self.dim))

    def _fl_join(self, parts: list[Tensor]) -> Tensor:
        return ops.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, before, after in zip(self.transforms, self._fl_split(x), self._fl_split(y), strict=True):
            term = t.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - t.event_dim) if t.event_dim < self.event_dim else term)
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return ops.cat(terms, dim)
        total: Any = 0
        for term in terms:
            total = total + term
        return total

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Transforms of slices along axis `dim`, joined as by `stack`.

    Raises:
        AssertionError: something that is no transform.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import transforms
        >>> t = transforms.StackTransform([transforms.identity_transform, transforms.ExpTransform()], dim=1)
        >>> t(fl.zeros(2, 2))
        tensor([[0., 1.],
                [0., 1.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self._fl_set_parts(tseq, dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _fl_split(self, x: Tensor) -> list[Tensor]:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"StackTransform: the input has shape {list(x.shape)}; expected {len(self.transforms)} along axis {self.dim}"
            )
        return list(x.unbind(self.dim))

    def _fl_join(self, parts: list[Tensor]) -> Tensor:
        return ops.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._fl_split(x), self._fl_split(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(before, after) for t, before, after in pairs], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
