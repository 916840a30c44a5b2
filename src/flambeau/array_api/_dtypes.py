"""Element types by the standard's rules: kinds, promotion, casts, limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau as fl
from flambeau import _C
from flambeau._C import Tensor

SIGNED = (_C.int8, _C.int16, _C.int32, _C.int64)
UNSIGNED = (_C.uint8, _C.uint16, _C.uint32, _C.uint64)
FLOATS = (_C.float32, _C.float64)
COMPLEX = (_C.complex64, _C.complex128)
KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (_C.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + FLOATS + COMPLEX,
}


class FInfo(NamedTuple):
    """What `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IInfo(NamedTuple):
    """What `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: Any


def dtype_of(x: Any) -> Any:
    """The element type of a tensor, or the type itself."""
    return x.dtype if isinstance(x, Tensor) else x


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind: one of the standard's names, a type, or a tuple of these.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> import flambeau as fl
        >>> fl.array_api.isdtype(fl.float32, ("integral", "real floating"))
        True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return bool(dtype == kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: kind = {kind!r}; expected a type, or one of {', '.join(map(repr, KINDS))}")
    if kind == "real floating":  # half precision floats are not the standard's, but floats
        return bool(dtype.is_floating_point)
    return dtype in KINDS[kind]


def _with_number(dtype: Any, number: Any) -> Any:
    """The type of a tensor beside a Python number, which stays weak."""
    if isinstance(number, complex) and not dtype.is_complex:
        return dtype.to_complex() if dtype.is_floating_point else _C.get_default_dtype().to_complex()
    if isinstance(number, float) and not dtype.is_complex and not dtype.is_floating_point:
        return _C.get_default_dtype()
    if isinstance(number, int) and not isinstance(number, bool) and dtype == _C.bool:
        return _C.int64
    return dtype


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that holds all of these; tensors count with their type, whatever their shape, and Python numbers stay weak.

    Raises:
        ValueError: no tensor and no type is among them.

    Example:
        >>> import flambeau as fl
        >>> fl.array_api.result_type(fl.ones(2), fl.ones((), dtype=fl.float64), 3)
        flambeau.float64
    """
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    types = [dtype_of(a) for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))]
    if not types:
        raise ValueError(f"result_type: {len(numbers)} numbers and no tensor or type; expected at least one of these")
    found = types[0]
    for t in types[1:]:
        found = _C.promote_types(found, t)
    for n in numbers:
        found = _with_number(found, n)
    return found


def together(*values: Any) -> list[Tensor]:
    """Tensors and numbers as tensors of their common type."""
    kind = result_type(*values)
    home = next(v.device for v in values if isinstance(v, Tensor))
    return [v.to(kind) if isinstance(v, Tensor) else _C.ops.full((), v, dtype=kind, device=home) for v in values]


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion leads from a type, or a tensor's, to another one."""
    return bool(_C.promote_types(dtype_of(from_), to) == to)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another type; a copy, unless `copy` is False and nothing changes.

    Raises:
        DTypeError: complex numbers as real ones.
    """
    if x.is_complex() and not dtype.is_complex and dtype != _C.bool:
        raise _C.DTypeError(f"astype: x is {x.dtype}, dtype = {dtype}; expected a complex type, or take xp.real(x) first")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def finfo(type: Any, /) -> FInfo:
    """Limits of a float type, or of the parts of a complex one; of a tensor's type."""
    found = fl.finfo(dtype_of(type))
    return FInfo(found.bits, found.eps, found.max, found.min, found.smallest_normal, getattr(_C, found.dtype))


def iinfo(type: Any, /) -> IInfo:
    """Limits of an integer type, or of a tensor's."""
    found = fl.iinfo(dtype_of(type))
    return IInfo(found.bits, found.max, found.min, dtype_of(type))
