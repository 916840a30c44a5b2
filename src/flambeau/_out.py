"""`out=` of functions that are compositions: the result is written into tensors of the caller."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import CONFUSED, explain
from flambeau._warn import warn

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def deliver(op: str, result: R, out: Any) -> R:
    """`result`, or `out` with the values of `result`, a tensor or a tuple of tensors.

    A tensor of another shape is resized, with a warning unless it is empty.

    Raises:
        TypeError: `out` is no tensor, or not as many as there are results.
        DTypeError: its type does not hold the result's kind of numbers.
        AutogradError: a gradient would have to be recorded.
    """
    if out is None:
        return result
    found: Any = result
    many = isinstance(found, tuple)
    parts, targets = (tuple(found), tuple(out) if isinstance(out, (tuple, list)) else (out,)) if many else ((found,), (out,))
    if len(parts) != len(targets) or not all(isinstance(t, Tensor) for t in targets):
        raise TypeError(f"{op}: out = {type(out).__name__}; expected {f'a tuple of {len(parts)} tensors' if many else 'a tensor'}")
    for part, target in zip(parts, targets, strict=True):
        _check(op, part, target)
    for part, target in zip(parts, targets, strict=True):
        _write(op, part, target)
    if not many:
        return out  # type: ignore[no-any-return]
    return found._make(targets) if hasattr(found, "_make") else type(found)(targets)  # type: ignore[no-any-return]


def takes_out(function: F) -> F:
    """Gives a composition the keyword `out`, which stands in its signature and which it never sees."""

    @functools.wraps(function)
    def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except CONFUSED as error:
            explain(error, function, args, kwargs)
            raise
        return result if out is None else deliver(function.__name__, result, out)

    return with_out  # type: ignore[return-value]


def _check(op: str, part: Tensor, target: Tensor) -> None:
    if (part.requires_grad or target.requires_grad) and _C.is_grad_enabled():
        raise _C.AutogradError(
            f"{op}(): functions with out=... arguments don't support automatic differentiation, but a tensor requires grad; "
            "assign the result, or use no_grad()"
        )
    if part.is_meta != target.is_meta:
        raise _C.DeviceError(f"{op}: the result is on {part.device}, out on {target.device}; expected one device")
    from flambeau._functions import can_cast

    if not can_cast(part.dtype, target.dtype):
        raise _C.DTypeError(f"{op}: result type {part.dtype} can't be cast to the desired output type {target.dtype}")


# Elements in a row, which fill an `out` of as many in the shape that it has.
_RAMPS = ("arange", "linspace", "logspace", "range")


def _write(op: str, part: Tensor, target: Tensor) -> None:
    if op in _RAMPS and target.numel() == part.numel():
        part = part.reshape(target.shape)
    if target.shape != part.shape:
        if target.numel():
            sizes = f"out has shape {list(target.shape)} and is resized to {list(part.shape)}"
            warn(f"{op}: {sizes}; pass an empty tensor or one of that shape")
        target.resize_(part.shape)
    ops.copy_(target, part)
