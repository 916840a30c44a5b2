"""Compositions of ops that fewer programs use: copies with a part replaced, numbers taken apart, combinations."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._held import writable
from flambeau._info import element_type
from flambeau._no_tensor import explained, wants_tensors
from flambeau._out import deliver, takes_out
from flambeau._results import result
from flambeau._spelled import spelled
from flambeau._warn import warn, warn_once


@result("frexp")
class Frexp(NamedTuple):
    """What `frexp` returns."""

    mantissa: Tensor
    exponent: Tensor


def _replaced(op: str, out: Tensor, part: Tensor, src: Tensor) -> Tensor:
    if part.shape != src.shape:
        raise _C.ShapeError(f"{op}: src has shape {list(src.shape)}; expected that of what it replaces, {list(part.shape)}")
    ops.copy_(part, src)
    return out


@spelled()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input whose slice at `index` along `dim` is src.

    Example:
        >>> import flambeau as fl
        >>> fl.select_scatter(fl.zeros(2, 2), fl.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    out = writable(input, src)
    return _replaced("select_scatter", out, ops.select(out, dim, index), src)


@spelled()
@takes_out
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A copy of input whose slice start:end:step along `dim` is src."""
    out = writable(input, src)
    return _replaced("slice_scatter", out, ops.slice(out, dim, start, end, step), src)


@spelled()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input whose diagonal is src."""
    out = writable(input, src)
    return _replaced("diagonal_scatter", out, ops.diagonal(out, offset, dim1, dim2), src)


@spelled()
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of input, over a copy of its memory, in which what `as_strided` would give is src."""
    if input.is_contiguous() and input.numel() * input.element_size() == input._storage_bytes():
        out = writable(input, src)
    else:
        every = input._storage_bytes() // input.element_size()
        memory = ops.clone(ops.as_strided(input, (every,), (1,), 0))
        out = ops.as_strided(memory, input.shape, input.stride(), input.storage_offset())
    at = input.storage_offset() if storage_offset is None else storage_offset
    return _replaced("as_strided_scatter", out, ops.as_strided(out, size, stride, at), src)


@spelled()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, in the order of `itertools.combinations`, one row each.

    Shape:
        input [n] -> [how many, r]
    """
    if input.ndim != 1:
        raise _C.ShapeError(f"combinations: Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise _C.ArgumentError(f"combinations: r = {r}; expected at least 0")
    if r == 0:
        return ops.empty((0,), dtype=input.dtype)
    n = input.shape[0]
    count = math.comb(n + r - 1 if with_replacement else n, r) if n else 0
    if count * r > 1 << 28:
        raise _C.ArgumentError(f"combinations: {count} combinations of {r} elements; expected at most {(1 << 28) // r}")
    if n == 1 and with_replacement:
        return ops.repeat(input, (1, r))
    at = ops.arange(n, dtype=_C.int64).reshape(n, 1)  # of one element; then each of k is followed by what may stand behind its last
    for _ in builtins.range(r - 1 if count else 0):
        first = at.select(1, -1) if with_replacement else at.select(1, -1) + 1
        more = ops.neg(first) + n
        row = ops.repeat_interleave(more)
        begin = ops.cumsum(more, 0) - more - first
        last = ops.arange(row.shape[0], dtype=_C.int64) - ops.index_select(begin, 0, row)
        at = ops.cat([ops.index_select(at, 0, row), last.reshape(-1, 1)], 1)
    return ops.index_select(input, 0, at.reshape(-1)[: count * r]).reshape(count, r)





@spelled()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of input on a diagonal.

    Shape:
        input [...] of n elements -> [n + |offset|, n + |offset|]
    """
    from flambeau._functions import diag_embed

    return diag_embed(input.reshape(-1), offset)


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of input's shape and type with `value`, a number or a 0-d tensor, everywhere."""
    return ops.fill_(ops.clone(input), value)


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """`pow` in float64, or complex128 where one of them is complex.

    Shape:
        input, exponent: tensors that broadcast, or one of them a number
    """
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError(f"float_power: input = {input!r}, exponent = {exponent!r}; expected a tensor among them")
    is_complex = any(v.is_complex() if isinstance(v, Tensor) else isinstance(v, complex) for v in (input, exponent))
    wide: Any = _C.complex128 if is_complex else _C.float64
    for name, v in (("input", input), ("exponent", exponent)):
        number = hasattr(type(v), "__float__") or hasattr(type(v), "__index__")
        if not isinstance(v, (Tensor, complex)) and not number:
            raise TypeError(f"float_power: {name} = {v!r} is a {type(v).__name__}; expected a tensor or a number")
    a, b = (v.to(wide) if isinstance(v, Tensor) else v if isinstance(v, complex) else float(v) for v in (input, exponent))
    return deliver("float_power", ops.pow(a, b), out)  # type: ignore[no-any-return]


def frexp(input: Tensor, *, out: Any = None) -> Frexp:
    """mantissa and exponent (int32) with input = mantissa * 2^exponent and 1/2 <= |mantissa| < 1, or 0.

    Example:
        >>> import flambeau as fl
        >>> fl.frexp(fl.tensor([1.0, -6.0])).exponent
        tensor([1, 3], dtype=flambeau.int32)
    """
    return deliver("frexp", Frexp(ops.frexp_mantissa(input), ops.frexp_exponent(input).to(_C.int32)), out)  # type: ignore[no-any-return]


@spelled()
@takes_out
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True, out: Tensor | None = None
) -> Tensor:
    """Slices of source, put together with those of input that `index` names along `dim`, by 'prod', 'mean', 'amax' or 'amin'.

    Args:
        include_self: whether what is in input takes part.

    Shape:
        index [k], source as input with k along dim -> input's
    """
    return _index_reduced(ops.scatter_reduce, input, dim, index, source, reduce, include_self)


def _index_reduce_(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    _index_reduced(ops.scatter_reduce_, self, dim, index, source, reduce, include_self)
    return self


def _index_reduced(how: Any, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """`how` is scatter_reduce, or the same in place."""
    warn_once("index_reduce() is in beta and the API may change at any time.")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise _C.ArgumentError(f"index_reduce: reduce = {reduce!r}; expected 'prod', 'mean', 'amax' or 'amin'")
    if index.ndim > 1 or source.ndim != input.ndim:
        given = f"index has shape {list(index.shape)}, source {list(source.shape)}"
        raise _C.ShapeError(f"index_reduce: {given}; expected one axis, and {input.ndim} axes")
    if input.ndim == 0:
        found = _index_reduced(how, input.view(1), 0, index.reshape(-1), source.reshape(1), reduce, include_self)
        return found.reshape([])
    wanted = list(input.shape)
    wanted[dim] = index.numel()
    if list(source.shape) != wanted:
        raise _C.ShapeError(
            f"index_reduce: source has shape {list(source.shape)}; expected {wanted}, with the number of indices along dim = {dim}"
        )
    shape = [1] * input.ndim
    shape[dim] = index.numel()
    spread = index.to(_C.int64).reshape(shape).expand(wanted)
    return how(input, dim, spread, source, reduce, include_self=include_self)  # type: ignore[no-any-return]


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """True if both have one shape."""
    try:
        return input.shape == other.shape
    except AttributeError as error:
        raise explained(error, is_same_size, (input, other,)) from None


def is_signed(input: Tensor) -> bool:
    """True for types that have negative numbers."""
    try:
        return bool(input.dtype.is_signed)
    except AttributeError as error:
        raise explained(error, is_signed, (input,)) from None


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`special.polygamma`: the n-th derivative of digamma."""
    from flambeau.special import polygamma as of_special

    return of_special(n, input, out=out)


@spelled()
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """`special.multigammaln`: logarithm of the multivariate gamma function."""
    from flambeau.special import multigammaln

    return multigammaln(input, p, out=out)


@wants_tensors
def range(  # noqa: A001
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... up to end, which is included; `arange` leaves it out, and is what new programs use."""
    warn("range: includes its end and is deprecated in PyTorch; use arange")
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0 or not all(map(math.isfinite, (start, end, step))):
        given = f"start = {start}, end = {end}, step = {step}"
        raise _C.ArgumentError(f"range: {given}; expected finite numbers, and a step from start towards end")
    count = math.floor((end - start) / step) + 1
    if dtype is None and isinstance(out, Tensor):
        dtype = out.dtype
    kind = _C.get_default_dtype() if dtype is None else element_type(dtype)
    wide = _C.float64 if kind.is_floating_point else _C.int64
    found: Tensor = deliver("range", (ops.arange(count, dtype=wide, device=device) * step + start).to(kind), out)
    return found.requires_grad_() if requires_grad else found


@wants_tensors
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """For positions in a flattened tensor of this shape, their indices along each axis.

    Example:
        >>> import flambeau as fl
        >>> fl.unravel_index(fl.tensor([4, 5]), (2, 3))
        (tensor([1, 1]), tensor([1, 2]))
    """
    if indices.is_floating_point() or indices.dtype is _C.bool:
        raise _C.DTypeError(f"unravel_index: indices are {indices.dtype}; expected integers")
    sizes = [int(shape)] if isinstance(shape, (int, Integral)) else [int(s) for s in shape]
    if any(s < 0 or (s == 0 and indices.numel()) for s in sizes):
        raise _C.ArgumentError(f"unravel_index: shape = {sizes}; expected sizes above 0 (or, without indices, no negative ones)")
    found: list[Tensor] = []
    rest = indices.to(_C.int64)
    for size in reversed(sizes):
        if size == 0:
            found.insert(0, rest)
            continue
        found.insert(0, ops.remainder(rest, size))
        rest = ops.floor_divide(rest, size)
    return tuple(found)


def is_inference(input: Tensor) -> bool:
    """True for a tensor that was made in `inference_mode`.

    Example:
        >>> import flambeau as fl
        >>> with fl.inference_mode():
        ...     x = fl.ones(2)
        >>> fl.is_inference(x), fl.is_inference(fl.ones(2))
        (True, False)
    """
    try:
        return input.is_inference()
    except AttributeError as error:
        raise explained(error, is_inference, (input,)) from None


@wants_tensors
def is_distributed(input: Tensor) -> bool:
    """False: a tensor lies in one process."""
    return input.is_distributed()  # type: ignore[attr-defined,no-any-return]


@wants_tensors
def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are True, as a tensor."""
    return input._is_all_true()  # type: ignore[attr-defined,no-any-return]


@wants_tensors
def _is_any_true(input: Tensor) -> Tensor:
    """Whether an element of a bool tensor is True, as a tensor."""
    return input._is_any_true()  # type: ignore[attr-defined,no-any-return]


def get_device(input: Tensor) -> int:
    """The number of the GPU that the tensor is on; -1 on the CPU."""
    try:
        return int(input.get_device())
    except AttributeError as error:
        raise explained(error, get_device, (input,)) from None


def get_num_interop_threads() -> int:
    """How many threads run functions of the dependency engine beside each other; ops share the threads of `get_num_threads`."""
    return int(_C.engine.get_workers())


def set_num_interop_threads(n: int) -> None:
    """Sets how many threads run functions of the dependency engine beside each other.

    Raises:
        ValueError: n < 1.
    """
    if n < 1:
        raise _C.ArgumentError(f"set_num_interop_threads: n = {n}; expected at least 1")
    _C.engine.set_workers(n)
