"""Transforms of real numbers, of which half of the entries are enough: y[n - k] is the conjugate of y[k]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._out import deliver
from flambeau.fft._arguments import axes_of, fitted, floating, norm_of, points, single
from flambeau.fft._linear import C2R, R2C, applied
from flambeau.fft._plans import at_once


def r2c(op: str, x: Tensor, s: Any, dim: Any, norm: str) -> Tensor:
    x = floating(op, x, real=True)
    axes, sizes = axes_of(op, x.shape, s, dim)
    if not axes:
        raise _C.ShapeError(f"{op}: no axis to transform; expected at least one")
    return applied(R2C, fitted(x, axes, sizes), axes, norm)


def c2r(op: str, x: Tensor, s: Any, dim: Any, norm: str) -> Tensor:
    x = floating(op, x, complex=True)
    axes, sizes = axes_of(op, x.shape, s, dim)
    if not axes:
        raise _C.ShapeError(f"{op}: no axis to transform; expected at least one")
    n = sizes[-1] if sizes[-1] is not None else 2 * (x.shape[axes[-1]] - 1)
    if n < 1:
        raise _C.ArgumentError(
            f"{op}: Invalid number of data points ({n}) specified, along axis {axes[-1]} of shape {list(x.shape)}; "
            "expected at least 1, or n="
        )
    x = fitted(x, axes, [*sizes[:-1], n // 2 + 1])
    return applied(C2R, x, axes, norm, n)


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first n // 2 + 1 entries of `fft` of real numbers.

    Shape:
        [..., m, ...] to [..., n // 2 + 1, ...], complex.

    Raises:
        DTypeError: complex input.
        ValueError: n < 1, or an unknown norm.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.rfft(fl.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    if out is None and (y := at_once("rfftn", input, points(n), (dim,), norm)) is not None:
        return y
    return deliver("rfft", r2c("rfft", input, *single("rfft", input, n, dim), norm_of("rfft", norm)), out)


def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `rfft`, n real numbers.

    Args:
        n: how many; 2 (m - 1) of m entries if it is not given, so that an odd number has to be said.

    Example:
        >>> import flambeau as fl
        >>> fl.fft.irfft(fl.tensor([10, -2 + 2j, -2]))
        tensor([1., 2., 3., 4.])
    """
    if out is None and (y := at_once("irfftn", input, points(n), (dim,), norm)) is not None:
        return y
    return deliver("irfft", c2r("irfft", input, *single("irfft", input, n, dim), norm_of("irfft", norm)), out)


def rfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fft2` of real numbers, of the last axis the non-redundant half."""
    if out is None and (y := at_once("rfftn", input, s, dim, norm)) is not None:
        return y
    return deliver("rfft2", r2c("rfft2", input, s, dim, norm_of("rfft2", norm)), out)


def irfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `rfft2`."""
    if out is None and (y := at_once("irfftn", input, s, dim, norm)) is not None:
        return y
    return deliver("irfft2", c2r("irfft2", input, s, dim, norm_of("irfft2", norm)), out)


def rfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`fftn` of real numbers, of the last axis the non-redundant half."""
    if out is None and (y := at_once("rfftn", input, s, dim, norm)) is not None:
        return y
    return deliver("rfftn", r2c("rfftn", input, s, dim, norm_of("rfftn", norm)), out)


def irfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `rfftn`."""
    if out is None and (y := at_once("irfftn", input, s, dim, norm)) is not None:
        return y
    return deliver("irfftn", c2r("irfftn", input, s, dim, norm_of("irfftn", norm)), out)
