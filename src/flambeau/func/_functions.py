"""Custom functions (`autograd.Function`) inside of transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau._C import AutogradError, Tensor
from flambeau.autograd.function import Function
from flambeau.func._batched import BatchLevel
from flambeau.func._dual import DualLevel
from flambeau.func._levels import highest, replaced
from flambeau.func._tree import flatten, spread
from flambeau.func._vmap import batch_result


class VmapInfo(NamedTuple):
    """What a custom function's `vmap` is told."""

    batch_size: int
    randomness: str


def apply_wrapped(function: Any, args: Sequence[Any]) -> Any:
    """`function.apply` for arguments of a running transformation; NotImplemented without such."""
    level = highest(args)
    if level is None:
        return NotImplemented
    if not level.open:
        return level.ended(function.__name__, args, {}) if isinstance(level, BatchLevel) else function.apply(*_primals(level, args))
    if isinstance(level, DualLevel):
        return level.transposed(lambda **given: function.apply(*given.values()), {str(i): a for i, a in enumerate(args)})
    assert isinstance(level, BatchLevel)
    if function.vmap is not Function.vmap:
        if function.generate_vmap_rule:
            raise AutogradError(f"{function.__name__}: it has a vmap and generate_vmap_rule = True; expected one of them")
        return _by_own_rule(level, function.vmap, args)
    return level.loop(function.__name__, args, {}, call=function.apply)


def _primals(level: Any, args: Sequence[Any]) -> list[Any]:
    return replaced(args, level.primal)


def _by_own_rule(level: BatchLevel, rule: Any, args: Sequence[Any]) -> Any:
    in_dims = tuple(0 if level.holds(a) else None for a in args)
    values = replaced(args, lambda x: x._value if level.holds(x) else x)
    output, out_dims = rule(VmapInfo(level.size, level.randomness), in_dims, *values)
    leaves, build = flatten(output)
    dims = spread("vmap", "out_dims", out_dims, output)
    return build([batch_result(level, y, d) if isinstance(y, Tensor) else y for y, d in zip(leaves, dims, strict=True)])
