"""Transforms of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau._out import deliver
from flambeau.fft._arguments import axes_of, fitted, floating, norm_of, points, single
from flambeau.fft._linear import C2C, applied
from flambeau.fft._plans import at_once


def _c2c(op: str, x: Tensor, s: Any, dim: Any, norm: str | None, forward: bool, out: Tensor | None) -> Tensor:
    how = norm_of(op, norm)
    x = floating(op, x)
    axes, sizes = axes_of(op, x.shape, s, dim)
    x = fitted(x, axes, sizes)
    y = applied(C2C, x, axes, how, forward) if axes else x.to(x.dtype.to_complex(), copy=True)
    return deliver(op, y, out)


def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform along one axis: y[k] = sum_j x[j] exp(-2 pi i j k / n).

    Args:
        n: points: the input is cut, or zeros are put behind it.

    Shape:
        [..., m, ...] to [..., n, ...], complex.

    Raises:
        ValueError: n < 1, or an unknown norm.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.fft(fl.tensor([1 + 0j, 2]))
        tensor([ 3.+0.j, -1.+0.j])
    """
    if out is None and (y := at_once("fftn", input, points(n), (dim,), norm)) is not None:
        return y
    return _c2c("fft", input, *single("fft", input, n, dim), norm, True, out)


def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `fft`: y[j] = sum_k x[k] exp(2 pi i j k / n) / n.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.ifft(fl.tensor([3 + 0j, -1]))
        tensor([1.+0.j, 2.+0.j])
    """
    if out is None and (y := at_once("ifftn", input, points(n), (dim,), norm)) is not None:
        return y
    return _c2c("ifft", input, *single("ifft", input, n, dim), norm, False, out)


def fft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fft` along two axes."""
    if out is None and (y := at_once("fftn", input, s, dim, norm)) is not None:
        return y
    return _c2c("fft2", input, s, dim, norm, True, out)


def ifft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`ifft` along two axes."""
    if out is None and (y := at_once("ifftn", input, s, dim, norm)) is not None:
        return y
    return _c2c("ifft2", input, s, dim, norm, False, out)


def fftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fft` along several axes: `dim`, else the last len(s), else all.

    Args:
        s: points per axis; -1 keeps an axis as it is.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.fftn(fl.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    if out is None and (y := at_once("fftn", input, s, dim, norm)) is not None:
        return y
    return _c2c("fftn", input, s, dim, norm, True, out)


def ifftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`ifft` along several axes: `dim`, else the last len(s), else all."""
    if out is None and (y := at_once("ifftn", input, s, dim, norm)) is not None:
        return y
    return _c2c("ifftn", input, s, dim, norm, False, out)
