"""Transforms of what is Hermitian: y[n - k] is the conjugate of y[k], so half of it is given and its transform is real.

`hfft` is `irfft` of the conjugate with the factor of the other direction, `ihfft` the conjugate of `rfft`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._out import deliver
from flambeau.fft._arguments import norm_of, points, single
from flambeau.fft._linear import OTHER
from flambeau.fft._plans import at_once
from flambeau.fft._real import c2r, r2c


def _hfft(op: str, x: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None) -> Tensor:
    return deliver(op, c2r(op, ops.conj(x), s, dim, OTHER[norm_of(op, norm)]), out)


def _ihfft(op: str, x: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None) -> Tensor:
    return deliver(op, ops.conj(r2c(op, x, s, dim, OTHER[norm_of(op, norm)])), out)


def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """`fft` of a Hermitian signal that is given by its first n // 2 + 1 entries: n real numbers.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.hfft(fl.fft.ihfft(fl.tensor([1.0, 2.0, 3.0, 4.0])))
        tensor([1., 2., 3., 4.])
    """
    if out is None and (y := at_once("hfftn", input, points(n), (dim,), norm)) is not None:
        return y
    return _hfft("hfft", input, *single("hfft", input, n, dim), norm, out)


def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 entries of `ifft` of real numbers.

    Raises:
        DTypeError: complex input.
    """
    if out is None and (y := at_once("ihfftn", input, points(n), (dim,), norm)) is not None:
        return y
    return _ihfft("ihfft", input, *single("ihfft", input, n, dim), norm, out)


def hfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`hfft` along two axes, of which the last is given by half."""
    if out is None and (y := at_once("hfftn", input, s, dim, norm)) is not None:
        return y
    return _hfft("hfft2", input, s, dim, norm, out)


def ihfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `hfft2`."""
    if out is None and (y := at_once("ihfftn", input, s, dim, norm)) is not None:
        return y
    return _ihfft("ihfft2", input, s, dim, norm, out)


def hfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`hfft` along several axes, of which the last is given by half."""
    if out is None and (y := at_once("hfftn", input, s, dim, norm)) is not None:
        return y
    return _hfft("hfftn", input, s, dim, norm, out)


def ihfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `hfftn`."""
    if out is None and (y := at_once("ihfftn", input, s, dim, norm)) is not None:
        return y
    return _ihfft("ihfftn", input, s, dim, norm, out)
