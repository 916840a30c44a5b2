"""What the transforms have in common before and behind the computation: types, axes, sizes, norms."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import no_such_axis
from flambeau._info import whole_number
from flambeau.fft._linear import OTHER, resized


def norm_of(op: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in OTHER:
        raise _C.ArgumentError(f'{op}: Invalid normalization mode: "{norm}"; expected backward, ortho, forward or None')
    return norm


def check_tensor(op: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}: input is a {type(x).__name__}; expected a Tensor")


def floating(op: str, x: Tensor, *, complex: bool = False, real: bool = False) -> Tensor:
    """x in a type that is computed in: complex, real, or either."""
    check_tensor(op, x)
    if x.dtype is _C.float32 and not complex:
        return x
    if real and x.is_complex():
        raise _C.DTypeError(f"{op} expects a real input tensor, but got {x.dtype}")
    if not x.is_complex() and not x.is_floating_point():
        x = x.to(_C.get_default_dtype())
    if x.dtype in (_C.float16, _C.bfloat16):
        if _C.is_autocast_enabled():
            return floating(op, x.to(_C.float32), complex=complex, real=real)
        raise _C.DTypeError(f"{op}: input is {x.dtype}; expected float32, float64 or complex numbers (x.float())")
    return x.to(x.dtype.to_complex()) if complex else x


def _numbers(op: str, name: str, v: Sequence[int] | int | None) -> list[int] | None:
    """Sizes or axes, of which one may stand for a list of one."""
    if v is None:
        return None
    if isinstance(v, (int, Integral)) or (isinstance(v, Tensor) and v.ndim == 0):
        v = [v]  # type: ignore[list-item]
    return [whole_number(op, name, e) for e in v]  # type: ignore[union-attr]


def axes_of(
    op: str, shape: Sequence[int], n: Sequence[int] | int | None, dim: Sequence[int] | int | None
) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes of a tensor of this shape, wrapped, and a size for each, None where it stays: by PyTorch's rules for `s` and `dim`."""
    rank = len(shape)
    if n is None and type(dim) is list and len(dim) == 1 and type(d := dim[0]) is int and -rank <= d < rank and shape[d]:
        return (d % rank,), [None]  # as most calls say
    sizes, given = _numbers(op, "s", n), _numbers(op, "dim", dim)
    if given is None:
        count = rank if sizes is None else len(sizes)
        if count > rank:
            raise _C.ArgumentError(f"{op}: s = {sizes} for a tensor of shape {list(shape)}; expected at most {rank} sizes")
        given = list(range(rank - count, rank))
    if sizes is not None and len(sizes) != len(given):
        raise _C.ArgumentError(f"{op}: When given, dim and shape arguments must have the same length: s = {sizes}, dim = {given}")
    for d in given:
        if not -rank <= d < rank:
            raise no_such_axis(op, "dim", d, shape, "input")
    axes = tuple(d % rank for d in given)
    if len(set(axes)) != len(axes):
        raise _C.ArgumentError(f"{op}: dim = {given} names an axis twice; expected distinct axes")
    wanted: list[int | None] = [None] * len(axes) if sizes is None else [None if v == -1 else v for v in sizes]
    for v, d in zip(wanted, axes, strict=True):
        if (shape[d] if v is None else v) < 1:
            points = shape[d] if v is None else v
            raise _C.ArgumentError(
                f"{op}: Invalid number of data points ({points}) specified, along axis {d} of shape {list(shape)}; expected at least 1"
            )
    return axes, wanted


def fitted(x: Tensor, axes: Sequence[int], sizes: Sequence[int | None]) -> Tensor:
    """x with the wanted sizes: cut, or with zeros behind."""
    for d, n in zip(axes, sizes, strict=True):
        x = x if n is None else resized(x, d, n)
    return x


def single(op: str, x: Tensor, n: int | None, dim: int) -> tuple[list[int] | None, list[int]]:
    """`s` and `dim` of a transform along one axis."""
    check_tensor(op, x)
    if x.ndim == 0:
        raise _C.RangeError(f"{op}: a 0-d tensor has no axis to transform; expected at least one")
    if type(n) is int and n == -1:  # which says in a list of sizes that one stays
        raise _C.ArgumentError(f"{op}: n = -1 points; expected at least 1, or None")
    return None if n is None else [n], [dim]


def points(n: int | None) -> tuple[int] | None:
    """`s` of a transform along one axis, by which its plan is found: there is none for -1."""
    return None if n is None else (0,) if type(n) is int and n == -1 else (n,)
