"""The functions of `flambeau.masked`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import iinfo
from flambeau._no_tensor import explains_functions
from flambeau.linalg import vector_norm

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm",
    "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


def _mask_of(x: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > x.ndim:
        shapes = f"the mask has shape {list(mask.shape)}, the input {list(x.shape)}"
        raise IndexError(f"masked: {shapes}; expected a mask that broadcasts to the input")
    return ops.broadcast_to(mask if mask.dtype is _C.bool else ops.ne(mask, 0), x.shape)


def _filled(x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    return x if mask is None else ops.where(_mask_of(x, mask), x, ops.full((), value, dtype=x.dtype))


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """All axes for None, else those that were named, counted from the front."""
    if dim is None:
        return tuple(range(ndim))
    named = (int(dim),) if isinstance(dim, (int, Integral)) else tuple(dim)
    out: list[int] = []
    for d in named:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"masked: dim = {d} of a tensor with {ndim} axes; expected {-max(ndim, 1)} to {max(ndim, 1) - 1}")
        if d % max(ndim, 1) in out:
            raise RuntimeError(f"masked: dim = {named} names axis {d % max(ndim, 1)} twice")
        out.append(d % max(ndim, 1))
    return tuple(sorted(out))


def _lowest(x: Tensor) -> Any:
    return float("-inf") if x.is_floating_point() or x.is_complex() else False if x.dtype is _C.bool else iinfo(x.dtype).min


def _highest(x: Tensor) -> Any:
    return float("inf") if x.is_floating_point() else True if x.dtype is _C.bool else iinfo(x.dtype).max


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None or x.dtype is dtype else x.to(dtype)


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The sum of what the mask lets through; integers are added as int64."""
    return ops.sum(_filled(input, mask, 0), _dims(dim, input.ndim) or None, keepdim, dtype=dtype)


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The product of what the mask lets through; integers are multiplied as int64."""
    exact = input.is_floating_point() or input.is_complex()
    result = _filled(input, mask, 1)
    for d in reversed(_dims(dim, input.ndim)):
        result = ops.prod(result, d, keepdim, dtype=dtype)
    return _cast(result, dtype or (input.dtype if exact else _C.int64))


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Sums up to each element, of what the mask lets through."""
    return ops.cumsum(_filled(input, mask, 0), *_dims(dim, input.ndim), dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Products up to each element, of what the mask lets through."""
    return ops.cumprod(_filled(input, mask, 1), *_dims(dim, input.ndim), dtype=dtype or input.dtype)


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The largest of what the mask lets through."""
    return _cast(ops.amax(_filled(input, mask, _lowest(input)), _dims(dim, input.ndim), keepdim), dtype)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The smallest of what the mask lets through."""
    return _cast(ops.amin(_filled(input, mask, _highest(input)), _dims(dim, input.ndim), keepdim), dtype)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Where the largest is of what the mask lets through, as numbers of the input's type unless `dtype` says otherwise (PyTorch's way)."""
    return ops.argmax(_filled(input, mask, _lowest(input)), dim, keepdim).to(dtype or input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Where the smallest is of what the mask lets through, as numbers of the input's type unless `dtype` says otherwise (PyTorch's way)."""
    return ops.argmin(_filled(input, mask, _highest(input)), dim, keepdim).to(dtype or input.dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many count, as int64."""
    let_through = ops.ones_like(input, dtype=_C.bool) if mask is None else _mask_of(input, mask)
    return ops.sum(let_through, dims or None, keepdim)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The mean of what the mask lets through; NaN where that is nothing.

    Raises:
        ValueError: the type is neither floating point nor complex.
    """
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(f"masked.mean: the type is {kind}; expected a floating point or complex one (dtype=)")
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, _dims(dim, input.ndim), keepdim, mask)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The lower median of what the mask lets through along one axis; NaN where that is nothing, or a NaN is let through.

    Raises:
        ValueError: nothing is let through of a slice of integers.
    """
    exact = input.is_floating_point()
    x = input if exact else input.to(_C.get_default_dtype())
    (axis,) = _dims(dim, input.ndim)
    result: Tensor = ops.nanmedian(_filled(x, mask, float("nan")), axis, keepdim)[0]
    if exact:
        return _cast(result, dtype)
    if bool(ops.any(ops.isnan(result))):
        raise ValueError("masked.median: a slice of integers of which the mask lets nothing through has no median")
    return result.to(dtype or input.dtype)


def norm(
    input: Tensor, ord: float = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The vector norm of what the mask lets through."""
    filler = float("inf") if ord == float("-inf") else 0
    return vector_norm(_filled(input, mask, filler), ord, _dims(dim, input.ndim) or None, keepdim, dtype=dtype)


def _deviation(
    name: str, input: Tensor, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool, dtype: Any, mask: Tensor | None
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise ValueError(f"masked.{name}: unbiased = {unbiased} and correction = {correction}; expected one of them")
    less = (1 if unbiased is None or unbiased else 0) if correction is None else correction
    kind = dtype or input.dtype
    compute = kind if kind.is_floating_point or kind.is_complex else _C.float32
    dims = _dims(dim, input.ndim)
    x = _cast(input, compute)
    centred = x - sum(x, dims, keepdim=True, mask=mask) / _count(input, dims, True, mask)
    squares = ops.mul(centred, ops.conj(centred)) if centred.is_complex() else ops.mul(centred, centred)
    total = sum(squares, dims, keepdim=keepdim, mask=mask)
    count = _count(input, dims, keepdim, mask)
    return _cast(total / (count - less).clamp(min=0) if less else total / count, compute)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of what the mask lets through: the sum of squares divided by their number less `correction` (1, or 0 if not unbiased).

    Raises:
        ValueError: both `unbiased` and `correction` are given.
    """
    return _deviation("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of `var`."""
    return ops.sqrt(_deviation("std", input, dim, unbiased, correction, keepdim, dtype, mask))


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """exp(x) over its sum along an axis, of what the mask lets through; 0 elsewhere, and NaN in slices of which nothing is."""
    return ops.softmax(_filled(_cast(input, dtype), mask, _lowest(input)), _dims(dim, input.ndim)[0])


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return ops.log_softmax(_filled(_cast(input, dtype), mask, _lowest(input)), _dims(dim, input.ndim)[0])


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of -x."""
    return ops.softmax(ops.neg(_filled(_cast(input, dtype), mask, _highest(input))), _dims(dim, input.ndim)[0])


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """What the mask lets through divided by its norm along an axis, or by `eps` if that is more; 0 elsewhere."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(_cast(input, dtype), mask, 0) / length.clamp(min=eps)


def logsumexp(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log(sum(exp(x))) of what the mask lets through."""
    return _cast(ops.logsumexp(_filled(input, mask, _lowest(input)), _dims(dim, input.ndim), keepdim), dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None
) -> Tensor:
    """log(exp(x) + exp(y)), each with a mask of its own."""
    return _cast(ops.logaddexp(_filled(input, input_mask, _lowest(input)), _filled(other, other_mask, _lowest(other))), dtype)


# ---- which results count; PyTorch's tests of these functions ask for it

_OVER_AXES = {"sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"}


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask in the input's shape; True throughout without one."""
    return ops.ones_like(input, dtype=_C.bool) if mask is None else _mask_of(input, mask)


def _output_mask(
    op: Any, input: Tensor, *args: Any, dim: Dims = None, keepdim: bool = False, mask: Tensor | None = None, **rest: Any
) -> Tensor:
    """Of a function of this module: which results had elements to go by."""
    let_through = _input_mask(input, mask=mask)
    name = op.__name__
    if name not in __all__ or name == "logaddexp":
        raise ValueError(f"_output_mask: {name!r}; expected a function of flambeau.masked with one input")
    if name not in _OVER_AXES:
        return let_through
    named = args[name == "norm" :]
    for d in reversed(_dims(named[0] if named else dim, input.ndim)) if input.ndim else ():
        let_through = ops.any(let_through, d, keepdim)
    return let_through


explains_functions(globals())
