"""What this build is, and what element types can hold."""

from __future__ import annotations

import operator
from typing import Any

from flambeau import _C


def show_config() -> str:
    """Versions, processor features in use, threads and how their number was found, oneDNN: as text."""
    import importlib.metadata
    import os
    import platform

    try:
        version = importlib.metadata.version("flambeau")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed (source tree)"
    onednn = _C.onednn_version()
    rows = [
        ("flambeau", version),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("compiler", f"g++/clang {_C.compiler()}"),
        ("instruction set", _C.isa_name()),
        ("threads", f"{_C.get_num_threads()} ({_C.threads_origin()}; {os.cpu_count()} processors)"),
        ("oneDNN", onednn or "not used (own kernels)"),
        ("CUDA", "not available"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


_FLOATS = {  # bits, eps, max, tiny
    "float8_e4m3fn": (8, 2.0**-3, 448.0, 2.0**-6),
    "float8_e5m2": (8, 2.0**-2, 57344.0, 2.0**-14),
    "float8_e4m3fnuz": (8, 2.0**-3, 240.0, 2.0**-7),
    "float8_e5m2fnuz": (8, 2.0**-3, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127),
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126),
    "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126),
    "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.0**-1022),
}

_OF_PYTHON = {float: _C.float64, int: _C.int64, bool: _C.bool, complex: _C.complex128}


def element_type(dtype: Any) -> Any:
    """The element type that one of Python's types means where a `dtype` is asked for; anything else is returned as it is."""
    return _OF_PYTHON.get(dtype, dtype) if isinstance(dtype, type) else dtype


def whole_number(op: str, name: str, value: Any) -> int:
    """An argument that is an int: Python's, NumPy's, or an integer tensor of one element.

    Raises:
        TypeError: something else, bools and floats too.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass  # said below, with the argument's name
    raise TypeError(f"{op}: {name} = {value!r}; expected an int")


def switch(op: str, name: str, value: Any) -> bool:
    """An argument that is a bool; numbers are taken for what they are worth, as ops of the table take them.

    A function looks for itself first, which costs a plain call next to nothing: `if x is not True and x is not False: x = switch(...)`.

    Raises:
        TypeError: something else, None and texts too.
    """
    if isinstance(value, (bool, int, float)) or (isinstance(value, _C.Tensor) and value.numel() == 1):
        return bool(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return bool(value)
    raise TypeError(f"{op}: {name} = {value!r} is a {type(value).__name__}; expected a bool")


def a_function(op: str, value: Any, name: str = "func") -> Any:
    """An argument that is called.

    Raises:
        TypeError: it can not be.
    """
    if not callable(value):
        raise TypeError(f"{op}: {name} = {value!r} is a {type(value).__name__}; the first argument must be callable")
    return value


def per_axis(op: str, name: str, value: Any, n: int) -> tuple[int, ...]:
    """An argument that is one int for each of n axes, or one for all of them.

    Raises:
        TypeError: something else than an int or a list of ints; bools and floats too.
        ValueError: another number of them.
    """
    if type(value) is int:
        return (value,) * n
    if isinstance(value, (str, bytes, dict, set)) or not (hasattr(type(value), "__index__") or hasattr(type(value), "__iter__")):
        raise TypeError(f"{op}: {name} = {value!r} is a {type(value).__name__}; expected an int or {n} of them")
    alone = not hasattr(type(value), "__iter__") or getattr(value, "ndim", 1) == 0
    values = (value,) * n if alone else tuple(value)
    if len(values) != n:
        raise _C.ArgumentError(f"{op}: {name} = {value}; expected one int or {n}")
    return tuple(v if type(v) is int else whole_number(op, name, v) for v in values)


class _Limits:
    """What a type can hold stays the same: there is one object for each, which nobody changes."""

    _made: dict[Any, Any] = {}
    _type: Any

    def __new__(cls, dtype: Any) -> Any:
        try:
            return _Limits._made[cls, dtype]
        except (KeyError, TypeError):
            pass
        self = super().__new__(cls)
        self._fl_fill(dtype)
        if isinstance(dtype, _C.dtype):
            _Limits._made[cls, dtype] = self
        return self

    def _fl_fill(self, dtype: Any) -> None:
        raise AssertionError("what a kind of limits is made of")

    def __reduce__(self) -> Any:
        return type(self), (self._type,)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} can not be written: it is what {self._type} can hold")
        super().__setattr__(name, value)


class finfo(_Limits):
    """Limits of a floating point type: bits, eps, max, min, tiny, smallest_normal, resolution; of a complex one, of its parts.

    Example:
        >>> import flambeau as fl
        >>> fl.finfo(fl.float32).eps, fl.finfo(fl.float16).max
        (1.1920928955078125e-07, 65504.0)
    """

    def __new__(cls, dtype: Any = None) -> finfo:
        return super().__new__(cls, _C.get_default_dtype() if dtype is None else dtype)  # type: ignore[no-any-return]

    def _fl_fill(self, dtype: Any) -> None:
        kind = element_type(dtype)
        if not isinstance(kind, _C.dtype):
            raise TypeError(f"finfo: dtype = {dtype!r} is a {type(dtype).__name__}; expected a floating point type")
        if kind.is_complex:
            kind = kind.to_real()
        if kind.name not in _FLOATS:
            raise TypeError(f"finfo() requires a floating point input type, got {kind}; use iinfo")
        self._type = kind
        self.bits, self.eps, self.max, self.tiny = _FLOATS[self._type.name]
        self.min = -self.max if self._type.is_signed else self.tiny
        self.smallest_normal = self.tiny
        self.dtype = self._type.name
        self.resolution = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}.get(self.dtype, 1.0)

    def __repr__(self) -> str:
        rows = {name: f"{getattr(self, name):g}" for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")}
        return f"finfo({', '.join(f'{name}={text}' for name, text in rows.items())}, dtype={self.dtype})"


class iinfo(_Limits):
    """Limits of an integer type: bits, min, max."""

    def __new__(cls, dtype: Any) -> iinfo:
        return super().__new__(cls, dtype)  # type: ignore[no-any-return]

    def _fl_fill(self, dtype: Any) -> None:
        given, dtype = dtype, element_type(dtype)
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"iinfo: dtype = {given!r} is a {type(given).__name__}; expected an integer type")
        if dtype.is_floating_point or dtype.is_complex or dtype is _C.bool:
            raise TypeError(f"iinfo() requires an integer input type, got {dtype}; use finfo")
        self._type = dtype
        self.bits = 8 * dtype.itemsize
        self.min = -(2 ** (self.bits - 1)) if dtype.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if dtype.is_signed else 2**self.bits - 1
        self.dtype = dtype.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_matmul_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted for PyTorch's sake: float32 products are computed in float32 whatever is set.

    Raises:
        ValueError: not 'highest', 'high' or 'medium'.
    """
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision: precision = {precision!r}; expected 'highest', 'high' or 'medium'"
        )
    _matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given; 'highest' at the start."""
    return _matmul_precision
