"""The three transforms that all others are made of, and their gradients.

Each is a linear map, whose gradient is its adjoint: the transform in the other direction with the same factor.

    c2c   complex to complex (real to complex where the input is real)        adjoint: c2c
    r2c   real to the non-redundant half of its transform                     adjoint: the real part of c2c of the half beside zeros
    c2r   such a half to the real numbers that it is the transform of         adjoint: r2c, with what stands for two entries doubled
"""

from __future__ import annotations

import functools
import importlib
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd import Function

# The norm by which the other direction has the same factor.
OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_MANY = 1 << 15  # elements from which on threads share the lines
REAL, COMPLEX = (_C.float32, _C.float64), (_C.complex64, _C.complex128)
_LONG = 1024  # points of lines that do not pay for ours when they are few


@functools.cache
def _library() -> tuple[Any, bool]:
    """The module that computes, and whether it takes `workers`."""
    try:
        return importlib.import_module("scipy.fft"), True
    except ImportError:
        import numpy.fft as plain

        return plain, False


@functools.cache
def is_ours(n: int, few: bool) -> bool:
    """Whether ops transform n points: Note [Fourier transforms] in csrc/ops/fft/fft.h. They do not pay for a few long lines."""
    return _C.is_fft_size(n) and (n <= _LONG or not few)


Step = tuple[Callable[..., Tensor], tuple[Any, ...]]  # an op, and its arguments behind the tensor


def steps_of(name: str, dtype: Any, sizes: Sequence[int], dims: Sequence[int], norm: str) -> list[Step]:
    """`name` of a tensor of this type by ops: along each axis in turn, the real one the first of a transform and the last of an inverse."""
    forward = name[0] != "i"
    divided = (norm == "forward") if forward else (norm == "backward")
    factor = 1.0 / math.sqrt(math.prod(sizes)) if norm == "ortho" else 1.0 / math.prod(sizes) if divided else 1.0
    *others, last = range(len(dims))
    steps: list[Step] = []
    if name == "rfftn":
        steps.append((ops.fft_real, (dims[last], sizes[last] // 2 + 1, factor)))
    elif name != "irfftn":
        if not dtype.is_complex:
            steps.append((ops.cast, (dtype.to_complex(),)))
        steps.append((ops.fft_complex, (dims[last], forward, factor)))
    steps += [(ops.fft_complex, (dims[k], forward, 1.0)) for k in reversed(others)]
    if name == "irfftn":
        steps.append((ops.fft_to_real, (dims[last], sizes[last], factor)))
    return steps


def _computed(name: str, x: Tensor, dtype: Any, shape: tuple[int, ...], axes: tuple[int, ...], norm: str, **options: Any) -> Tensor:
    """`name` of the library for x, in the given type and shape; by ops where these have its sizes."""
    if x.is_meta or 0 in shape or x.numel() == 0:
        return ops.zeros(shape, dtype=dtype, device=x.device)
    given = shape if name == "irfftn" else x.shape
    sizes = [given[d] for d in axes]
    elements = math.prod(shape)
    if all(is_ours(n, elements < 4 * n) for n in sizes):
        for op, args in steps_of(name, x.dtype, sizes, axes, norm):
            x = op(x, *args)
        return x
    options.update(axes=axes, norm=norm)
    module, threads = _library()
    if threads and x.numel() >= _MANY:
        options["workers"] = _C.get_num_threads()
    array = getattr(module, name)(x.detach().numpy(), **options)
    return _C.to(_C.from_buffer(array), dtype, None, False)


def _direction(forward: bool, name: str) -> str:
    return name if forward else f"i{name}"


def applied(kind: type[Function], x: Tensor, *args: Any) -> Tensor:
    """`kind.apply`, without what is for gradients where nobody wants one."""
    if type(x) is Tensor and not (x.requires_grad and _C.is_grad_enabled()):
        return kind.forward(types.SimpleNamespace(), x, *args)  # type: ignore[no-any-return]
    return kind.apply(x, *args)  # type: ignore[no-any-return]


class _AlongAxes(Function):
    """Base of transforms along axes: all others are a batch to them, so the samples of a `vmap` are one more in front."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], x: Tensor, dims: tuple[int, ...], *args: Any) -> Any:  # type: ignore[override]
        """All samples by one call."""
        return cls.apply(x, tuple(d + 1 if d >= 0 else d for d in dims), *args), 0


class C2C(_AlongAxes):
    """y = F x along `dims`, or its inverse."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...], norm: str, forward: bool) -> Tensor:
        ctx.args, ctx.real = (dims, norm, forward), not x.is_complex()
        return _computed(_direction(forward, "fftn"), x, x.dtype.to_complex(), tuple(x.shape), axes=dims, norm=norm)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        dims, norm, forward = ctx.args
        dx = C2C.apply(dy, dims, OTHER[norm], not forward)
        return (dx.real if ctx.real else dx), None, None, None


class R2C(_AlongAxes):
    """The transform of real x along `dims`: along the last of these the n // 2 + 1 entries that are not conjugates of others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...], norm: str) -> Tensor:
        ctx.args, ctx.n = (dims, norm), x.shape[dims[-1]]
        shape = [*x.shape]
        shape[dims[-1]] = ctx.n // 2 + 1
        return _computed("rfftn", x, x.dtype.to_complex(), tuple(shape), axes=dims, norm=norm)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        dims, norm = ctx.args
        return C2C.apply(resized(dy, dims[-1], ctx.n), dims, OTHER[norm], False).real, None, None


class C2R(_AlongAxes):
    """The real numbers, n along the last of `dims`, of whose transform x is the half."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...], norm: str, n: int) -> Tensor:
        ctx.args = dims, norm, n
        shape = [*x.shape]
        shape[dims[-1]] = n
        sizes = [shape[d] for d in dims]
        return _computed("irfftn", x, x.dtype.to_real(), tuple(shape), s=sizes, axes=dims, norm=norm)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        dims, norm, n = ctx.args
        half = R2C.apply(dy, dims, OTHER[norm])
        last, twice = dims[-1], (n - 1) // 2  # all but the first entry, and the one in the middle of an even number
        parts = [ops.slice(half, last, 0, 1, 1), ops.slice(half, last, 1, 1 + twice, 1) * 2, ops.slice(half, last, 1 + twice, None, 1)]
        return ops.cat(parts, last), None, None, None


def resized(x: Tensor, dim: int, n: int) -> Tensor:
    """x with n entries along an axis: the first ones, or zeros behind them."""
    for op, args in resizing(x.shape, dim, n):
        x = op(x, *args)
    return x


def resizing(shape: Sequence[int], dim: int, n: int) -> list[Step]:
    """What gives an axis of a tensor of this shape n entries."""
    have = shape[dim]
    if n < have:
        return [(ops.slice, (dim, 0, n, 1))]
    behind = len(shape) - 1 - dim % len(shape)
    return [] if n == have else [(ops.constant_pad, ([*([0, 0] * behind), 0, n - have],))]
