"""The frequencies of a transform's entries, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import element_type
from flambeau._out import deliver
from flambeau.fft._arguments import check_tensor


def _checked(op: str, n: int, dtype: Any, out: Tensor | None) -> Any:
    """The type to compute in."""
    if n < 1:
        raise _C.ArgumentError(f"{op}: n = {n}; expected at least 1 point")
    if dtype is None and isinstance(out, Tensor) and out.is_floating_point():
        return out.dtype
    kind = _C.get_default_dtype() if dtype is None else element_type(dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise _C.DTypeError(f"{op}: dtype = {kind}; expected a floating point or complex type")
    return kind


def fftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies of the entries of `fft`, in cycles per unit of the spacing d: 0, 1, ..., then the negative ones, over n d.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.fftfreq(4, 0.5)
        tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    dtype = _checked("fftfreq", n, dtype, out)
    half = (n + 1) // 2
    steps = ops.cat([ops.arange(0, half, dtype=dtype, device=device), ops.arange(-(n // 2), 0, dtype=dtype, device=device)])
    y = deliver("fftfreq", steps * (1.0 / (n * d)), out)
    return y.requires_grad_() if requires_grad else y


def rfftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies of the entries of `rfft`.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    dtype = _checked("rfftfreq", n, dtype, out)
    y = deliver("rfftfreq", ops.arange(0, n // 2 + 1, dtype=dtype, device=device) * (1.0 / (n * d)), out)
    return y.requires_grad_() if requires_grad else y


def _axes(op: str, x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    check_tensor(op, x)
    return list(range(x.ndim)) if dim is None else [int(dim)] if isinstance(dim, (int, Integral)) else list(dim)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Moves the frequency 0 to the middle of each axis.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.fftshift(fl.fft.fftfreq(4))
        tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    axes = _axes("fftshift", input, dim)
    return ops.roll(input, [input.shape[d] // 2 for d in axes], axes) if axes else input.clone()


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    axes = _axes("ifftshift", input, dim)
    return ops.roll(input, [(input.shape[d] + 1) // 2 for d in axes], axes) if axes else input.clone()
