"""Window functions of signals."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import element_type, whole_number
from flambeau._no_tensor import explains_functions


def _positions(name: str, length: int, periodic: bool, dtype: Any, device: Any) -> tuple[Tensor | None, int]:
    """0, 1, ..., length - 1 and the number that they are divided by; no positions for windows of less than two elements."""
    length = whole_number(name, "window_length", length)
    if length < 0:
        raise _C.ArgumentError(f"{name}: window_length = {length}; expected at least 0")
    dtype = element_type(dtype)
    if dtype is not None and not getattr(dtype, "is_floating_point", False):
        raise _C.DTypeError(f"{name}: dtype = {dtype}; expected a floating point type")
    if length < 2:
        return None, 1
    return ops.arange(length, dtype=_C.float64, device=device), length if periodic else length - 1


def _finished(window: Tensor | None, length: int, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    kind = _C.get_default_dtype() if dtype is None else element_type(dtype)
    found = ops.ones((length,), dtype=kind, device=device) if window is None else window.to(kind)
    return found.requires_grad_() if requires_grad else found


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: 1 - |2 k / n - 1| for n = window_length, or window_length - 1 where it is not to be repeated.

    Shape:
        [window_length]
    """
    k, n = _positions("bartlett_window", window_length, periodic, dtype, device)
    window = None if k is None else 1 - (k * (2 / n) - 1).abs()
    return _finished(window, window_length, dtype, device, requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """sin^2(pi k / n) for n = window_length, or window_length - 1 where it is not to be repeated.

    Shape:
        [window_length]

    Example:
        >>> import flambeau as fl
        >>> fl.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    k, n = _positions("hann_window", window_length, periodic, dtype, device)
    window = None if k is None else 0.5 - 0.5 * (k * (2 * 3.141592653589793 / n)).cos()
    return _finished(window, window_length, dtype, device, requires_grad)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi k / n) for n = window_length, or window_length - 1 where it is not to be repeated.

    Shape:
        [window_length]
    """
    k, n = _positions("hamming_window", window_length, periodic, dtype, device)
    window = None if k is None else alpha - beta * (k * (2 * 3.141592653589793 / n)).cos()
    return _finished(window, window_length, dtype, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n) for n = window_length, or window_length - 1 where it is not to be repeated.

    Shape:
        [window_length]
    """
    k, n = _positions("blackman_window", window_length, periodic, dtype, device)
    angle = None if k is None else k * (2 * 3.141592653589793 / n)
    window = None if angle is None else (0.42 - 0.5 * angle.cos() + 0.08 * (angle * 2).cos()).clamp(min=0)
    return _finished(window, window_length, dtype, device, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta) for n = window_length, or window_length - 1 where it is not to be repeated.

    Shape:
        [window_length]
    """
    k, n = _positions("kaiser_window", window_length, periodic, dtype, device)
    if k is None:
        return _finished(None, window_length, dtype, device, requires_grad)
    inside = (1 - ops.square(k * (2 / n) - 1)).clamp(min=0).sqrt() * beta
    scale = ops.special_i0e(ops.full((), float(beta), dtype=_C.float64, device=device))
    window = ops.special_i0e(inside) / scale * (inside.abs() - abs(beta)).exp()
    return _finished(window, window_length, dtype, device, requires_grad)


explains_functions(globals())
