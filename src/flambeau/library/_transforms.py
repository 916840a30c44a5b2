"""Custom ops inside of `vmap` and forward mode, and calls that subclasses and modes take over."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.func._batched import BatchLevel
from flambeau.func._dual import DualLevel
from flambeau.func._functions import VmapInfo
from flambeau.func._levels import highest, replaced
from flambeau.func._tree import flatten, spread
from flambeau.func._vmap import batch_result
from flambeau.library._op import CustomOpDef


def taken_over(op: CustomOpDef[..., Any], values: list[Any]) -> Any:
    """The call, by what takes it over."""
    args, kwargs = op._schema.split(values)
    level = highest(values)
    if level is None:
        return _C.call_override(op, args, kwargs)
    if not level.open and not isinstance(level, DualLevel):
        return level.ended(op._qualname, args, kwargs)
    if isinstance(level, DualLevel):
        if not level.open:
            return op(*replaced(args, level.primal), **dict(zip(kwargs, replaced(kwargs.values(), level.primal), strict=True)))
        if op._schema.is_mutable:
            raise RuntimeError(f"{op._qualname}: it writes to its arguments, which forward mode can not follow; return new tensors instead")
        names = [a.name for a in op._schema.arguments]
        return level.transposed(lambda **given: op(**given), dict(zip(names, values, strict=True)))
    assert isinstance(level, BatchLevel)
    if op._vmap is not None:
        return _by_rule(op, level, args, kwargs)
    for t in op._schema.mutated(values):
        level.check_written(op._qualname, t)
    if op._composed is not None and not op._kernels:
        return op._composed(*args, **kwargs)
    return level.loop(op._qualname, args, kwargs, call=op)


def _dim(level: BatchLevel, value: Any) -> Any:
    """Where the batch of an argument, or of each part of a list, lies."""
    if isinstance(value, (tuple, list)):
        return type(value)([_dim(level, part) for part in value])
    return 0 if level.holds(value) else None


def _by_rule(op: CustomOpDef[..., Any], level: BatchLevel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def whole(x: Tensor) -> Tensor:
        return x._value if level.holds(x) else x  # type: ignore[attr-defined,no-any-return]

    assert op._vmap is not None
    keywords = dict(zip(kwargs, replaced(kwargs.values(), whole), strict=True))
    result = op._vmap(VmapInfo(level.size, level.randomness), tuple(_dim(level, a) for a in args), *replaced(args, whole), **keywords)
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{op._qualname}: its vmap returned a {type(result).__name__}; expected (output, out_dims)")
    output, out_dims = result
    leaves, build = flatten(output)
    dims = spread("vmap", "out_dims", out_dims, output)
    return build([batch_result(level, y, d) if isinstance(y, Tensor) else y for y, d in zip(leaves, dims, strict=True)])
