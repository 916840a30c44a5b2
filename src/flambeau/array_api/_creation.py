"""Tensors from values, shapes and ranges, with the standard's names and arguments."""

from __future__ import annotations

from numbers import Number
from typing import Any

import flambeau as fl
from flambeau import _C
from flambeau._C import Tensor, ops


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of a tensor, a number, nested lists, or an object with the buffer protocol or DLPack."""
    if not isinstance(obj, Tensor) and not hasattr(obj, "__dlpack__") and _has_buffer(obj):
        obj = _C.from_buffer(obj)  # of the type that the buffer says, which PyTorch's function does not ask
    return fl.asarray(obj, dtype=dtype, device=device, copy=copy)


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of an object with `__dlpack__`, or with a copy of it."""
    return fl.from_dlpack(x, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, ... below stop; from 0 where only one number is given."""
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if not isinstance(value, (int, float, Number, Tensor)) and value is not None:
            raise TypeError(f"arange: {name} is a {type(value).__name__}; expected a number")
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step <= 0:
        floats = any(isinstance(v, float) for v in (start, stop, step))
        kind = dtype if dtype is not None else _C.get_default_dtype() if floats else _C.int64
        return ops.empty((0,), dtype=kind, device=device)
    return ops.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers at equal distances from start to stop, which is left out without `endpoint`."""
    if dtype is None and any(isinstance(v, complex) for v in (start, stop)):
        dtype = _C.get_default_dtype().to_complex()
    if dtype is not None and dtype.is_complex:
        a, b = complex(start), complex(stop)
        real = linspace(a.real, b.real, num, dtype=dtype.to_real(), device=device, endpoint=endpoint)
        return ops.complex(real, linspace(a.imag, b.imag, num, dtype=dtype.to_real(), device=device, endpoint=endpoint))
    if endpoint:
        return ops.linspace(start, stop, num, dtype=dtype, device=device)
    return ops.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor whose elements may be anything."""
    return ops.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""
    return ops.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""
    return ops.ones(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number everywhere, in its own type by default."""
    return ops.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`empty` with the shape and type of x."""
    return ops.empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`zeros` with the shape and type of x."""
    return ops.zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`ones` with the shape and type of x."""
    return ops.ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`full` with the shape and type of x."""
    return ops.full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    rows, across = ops.arange(n_rows, device=device).unsqueeze(-1), ops.arange(columns, device=device)
    return (across - rows == k).to(_C.get_default_dtype() if dtype is None else dtype)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal of each matrix, zeros above."""
    return ops.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal of each matrix, zeros below."""
    return ops.triu(x, k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid, each as an array over all of it; 'xy' has the axes of the first two exchanged, 'ij' has not.

    Raises:
        DTypeError: arrays of different types.
    """
    if len({a.dtype for a in arrays}) > 1:
        raise _C.DTypeError(f"meshgrid: the arrays are {', '.join(str(a.dtype) for a in arrays)}; expected one type")
    return list(fl.meshgrid(*arrays, indexing=indexing)) if arrays else []
