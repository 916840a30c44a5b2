"""`vmap`: attributes of a sample, and methods that are no ops of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Size, Tensor, ops
from flambeau._errors import no_such_axis
from flambeau.func._batched import BatchLevel, raw_rule
from flambeau.func._levels import dtype_of, shape_of
from flambeau.func._table import call_of

F = TypeVar("F", bound=Callable[..., Any])


def _of_sample(*names: str) -> Callable[[F], F]:
    """Registers what follows from shape and type: f(sample, *args, **kwargs)."""

    def register(function: F) -> F:
        raw_rule(*names)(lambda level, args, kwargs: function(*args, **kwargs))
        return function

    return register


@_of_sample("get:shape")
def _shape(x: Tensor) -> Any:
    return Size(shape_of(x))


@_of_sample("size")
def _size(x: Tensor, dim: int | None = None) -> Any:
    shape = shape_of(x)
    if dim is None:
        return Size(shape)
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"size: dim = {dim}, but a sample has shape {list(shape)}; expected {-len(shape)} <= dim < {len(shape)}")
    return shape[dim]


_of_sample("get:ndim", "dim", "ndimension")(lambda x: len(shape_of(x)))
_of_sample("numel", "nelement")(lambda x: math.prod(shape_of(x)))
_of_sample("get:dtype")(dtype_of)
_of_sample("get:itemsize", "element_size")(lambda x: dtype_of(x).itemsize)
_of_sample("get:nbytes")(lambda x: dtype_of(x).itemsize * math.prod(shape_of(x)))
_of_sample("is_floating_point")(lambda x: dtype_of(x).is_floating_point)
_of_sample("is_complex")(lambda x: dtype_of(x).is_complex)
_of_sample("get:_base", "get:grad")(lambda x: None)


def _value_attribute(name: str) -> None:
    raw_rule(name)(lambda level, args, kwargs: call_of(name)(args[0]._value, *args[1:], **kwargs))


for _name in ("get:device", "get:is_cpu", "get:is_cuda", "get:is_meta", "get:requires_grad", "get:grad_fn", "get:is_leaf", "is_inference",
              "get:_version", "get:retains_grad", "is_contiguous", "get:output_nr", "storage_offset"):  # fmt: skip
    _value_attribute(_name)


@raw_rule("stride")
def _stride(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    strides = tuple(args[0]._value.stride())[1:]
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim is None:
        return strides
    if not -len(strides) <= dim < len(strides):
        raise no_such_axis("stride", "dim", dim, shape_of(args[0]))
    return strides[dim]


def _same_axes(name: str) -> None:
    """A method whose result has the axes of its tensor."""

    def run(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        x, *others = args
        # Of another tensor, `to` takes type and place.
        others = [level.full(v) if isinstance(v, Tensor) else v for v in others]
        given = {k: level.full(v) if isinstance(v, Tensor) else v for k, v in kwargs.items()}
        value = call_of(name)(x._value if level.holds(x) else x, *others, **given)
        if not level.holds(x):
            return value
        return x if value is x._value else level.wrap(value)

    raw_rule(name)(run)


for _name in ("detach", "to", "contiguous", "get:data"):
    _same_axes(_name)


def _axes_turned(name: str) -> None:
    kind = name[-2:].lstrip(":")

    def run(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value = args[0]._value
        rank = len(shape_of(args[0]))
        if kind.startswith("m") and rank < 2:
            raise _C.ShapeError(f"{kind}: a sample has shape {list(shape_of(args[0]))}; expected at least 2 axes")
        if kind.startswith("m"):
            value = ops.transpose(value, -2, -1)
        else:
            value = ops.permute(value, (0, *range(rank, 0, -1)))
        return level.wrap(ops.conj(value) if kind.endswith("H") and dtype_of(value).is_complex else value)

    raw_rule(name)(run)


for _name in ("get:T", "get:mT", "get:H", "get:mH"):
    _axes_turned(_name)


for _name in ("get:real", "get:imag"):
    _same_axes(_name)


def _refuse(names: Sequence[str], why: str) -> None:
    def run(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise RuntimeError(f"vmap: {why}")

    raw_rule(*names)(run)


def _register_steps(name: str) -> None:
    """Ends that are tensors without axes: numbers of each sample."""

    def steps(level: BatchLevel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        names = ("start", "end", "steps", "base")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        start, end, count = (given.pop(n, None) for n in names[:3])
        base = given.pop("base", 10.0)
        kind = given.get("dtype") or _C.get_default_dtype()
        ends = [v.detach().to(_C.float64) if isinstance(v, Tensor) else v for v in (start, end)]
        if kind.is_complex or len(args) > len(names) or count is None or any(isinstance(v, Tensor) and shape_of(v) for v in (start, end)):
            return NotImplemented
        at = ops.arange(count, dtype=_C.float64)
        step = ops.mul(ops.sub(ends[1], ends[0]), 1 / max(count - 1, 1)) if isinstance(ends[1], Tensor) else None
        if step is None:
            step = ops.mul(ops.sub(ends[0], ends[1]), -1 / max(count - 1, 1))
        up, down = ops.add(ops.mul(step, at), ends[0]), ops.add(ops.mul(step, ops.sub(at, count - 1)), ends[1])
        y = ops.where(ops.lt(at, (count + 1) // 2), up, down)
        return (y if name == "linspace" else ops.pow(base, y)).to(kind)

    raw_rule(name)(steps)


for _name in ("linspace", "logspace"):
    _register_steps(_name)


_refuse(
    ("item", "__bool__", "__float__", "__int__", "__index__"),
    "It looks like you're calling .item() on a Tensor (or bool(), or an if or while on it), but inside of vmap it stands for one value per "
    "sample; use where() and other ops on tensors",
)
_refuse(
    ("data_ptr", "_storage_ptr", "_storage_bytes"),
    "the memory of a tensor is asked for, but inside of vmap it stands for one value per sample; use ops on tensors",
)
_refuse(
    ("requires_grad_", "set:requires_grad", "set:grad", "set:data", "detach_", "resize_"),
    "a tensor's gradient or memory is changed in place, which a batch does not take; use func.grad, or ops that return new tensors",
)
