"""What distributions share: parameters of one shape, lazily computed ones, probabilities and their logits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau._errors import NoTensorError
from flambeau._no_tensor import explains_functions
from flambeau.func._levels import held_by

Shape = Sequence[int]


def size(*parts: Shape) -> fl.Size:
    """The shapes one after the other."""
    try:
        return fl.Size([n for part in parts for n in part])
    except TypeError:
        wrong = next((part for part in parts if isinstance(part, str) or not isinstance(part, Iterable)), parts)
        raise TypeError(f"size: {wrong!r} is a {type(wrong).__name__}; expected a tuple of sizes") from None


def is_number(value: Any) -> bool:
    """True for a Python number."""
    return isinstance(value, (int, float))


def checked_number(name: str, key: str, value: Any) -> Any:
    """A parameter that is used as it is, a number or a tensor; what can be made a number is one.

    Raises:
        TypeError: it is neither.
    """
    if is_number(value) or fl.overrides.is_tensor_like(value):
        return value
    if hasattr(type(value), "__float__"):
        with contextlib.suppress(Exception):
            return float(value)
    raise TypeError(f"{name}: {key} = {value!r} is a {type(value).__name__}; expected a number or a Tensor")


def checked_tensor(name: str, key: str, value: Any) -> Tensor:
    """A parameter as it is.

    Raises:
        TypeError: it is no tensor; an AttributeError, too, as PyTorch raises.
    """
    if not fl.overrides.is_tensor_like(value):
        raise NoTensorError(f"{name}: {key} is a {type(value).__name__}; expected a Tensor")
    return value  # type: ignore[no-any-return]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the type of the tensors, or the default one.

    Raises:
        ValueError: something that is neither a number nor a tensor.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions.utils import broadcast_all
        >>> [x.shape for x in broadcast_all(fl.zeros(3), 1.0)]
        [flambeau.Size([3]), flambeau.Size([3])]
    """
    for value in values:
        if not isinstance(value, Tensor) and not is_number(value):
            raise ValueError(f"broadcast_all: got a {type(value).__name__}; expected tensors and numbers")
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = like.dtype if like is not None else fl.get_default_dtype()
    tensors = [value if isinstance(value, Tensor) else fl.tensor(value, dtype=dtype) for value in values]
    return tuple(fl.broadcast_tensors(*tensors))


def _standard_normal(shape: Shape, dtype: Any, device: Any) -> Tensor:
    """Draws from N(0, 1); PyTorch's name, which libraries of distributions use."""
    return fl.randn(shape, dtype=dtype, device=device)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` axes."""
    if dims == 0:
        return value
    return value.reshape(*value.shape[:-dims], -1).sum(-1)


_sum_rightmost = sum_rightmost


def all_true(valid: Tensor | bool) -> bool:
    """True if every element is, inside of vmap those of all samples."""
    return bool(held_by(valid).all()) if isinstance(valid, Tensor) else bool(valid)


def first_outside(name: str, value: Tensor, inside: Tensor | bool) -> str:
    """Which value a check failed for first, and how many more: ": scale[2] = -0.1 (1 of 4)". Inside of vmap samples are the first axis."""
    if not isinstance(inside, Tensor):
        return ""
    value, inside = held_by(value), held_by(inside)
    if inside.ndim == 0 or value.is_meta:
        return ""
    outside = (~inside.bool()).nonzero()
    at = outside[0].tolist()
    if len(at) > value.ndim or any(i >= n for i, n in zip(at, value.shape)):  # it was broadcast with others
        return ""
    first = value[tuple(at)]
    shown = f"{first.item():.6g}" if first.ndim == 0 and not first.is_complex() else str(first.tolist())
    return f": {name}{at} = {shown} ({len(outside)} of {inside.numel()})"


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the rounding of their type, so that logarithms are finite."""
    eps = fl.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or along the last axis of unnormalised logarithms."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `logits_to_probs`."""
    clamped = clamp_probs(probs)
    return ops.log(clamped) - ops.log1p(-clamped) if is_binary else ops.log(clamped)


class lazy_property:  # noqa: N801  (it is used like property)
    """A property that is computed at its first use and then is an attribute of the object, which is found before this one.

    It is computed with gradients even inside of `no_grad`, since it stays.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with fl.enable_grad():
            value = instance.__dict__[self.name] = self.wrapped(instance)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangles of matrices [.., n, n] as vectors, row by row.

    Raises:
        ValueError: `diag` is outside of the matrix.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag = {diag}; expected {-n} <= diag <= {n - 1}")
    rows, columns = ops.tril_indices(n, n, diag).unbind()
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`, with zeros above.

    Raises:
        ValueError: a length that no triangle has.
    """
    length = vec.shape[-1]
    n = next((n for n in range(1, length + abs(diag) + 2) if _tril_count(n, diag) >= length), 0)
    if _tril_count(n, diag) != length or not -n <= diag < n:
        raise ValueError(f"vec_to_tril_matrix: no square matrix has {length} elements from diagonal {diag} down")
    rows, columns = ops.tril_indices(n, n, diag).unbind()
    out = vec.new_zeros(size(vec.shape[:-1], (n, n)))
    out[..., rows, columns] = vec
    return out


def _tril_count(n: int, diag: int) -> int:
    """Elements of an [n, n] matrix on and below a diagonal."""
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))


explains_functions(globals())
