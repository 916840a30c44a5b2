"""Custom functions (`autograd.Function`) inside of transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau._C import AutogradError, Tensor, has_override, ops
from flambeau.autograd.function import Function, FunctionCtx
from flambeau.func._batched import BatchLevel
from flambeau.func._dual import DualLevel
from flambeau.func._levels import highest, replaced, shape_of
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
        if function.jvp is not Function.jvp:
            return _by_own_jvp(level, function, args)
        return level.transposed(lambda **given: function.apply(*given.values()), {str(i): a for i, a in enumerate(args)})
    assert isinstance(level, BatchLevel)
    if function.vmap is not Function.vmap:
        if function.generate_vmap_rule:
            raise AutogradError(f"{function.__name__}: it has a vmap and generate_vmap_rule = True; expected one of them")
        return _by_own_rule(level, function.__name__, function.vmap, args)
    if function.generate_vmap_rule and hasattr(function, "setup_context"):
        from flambeau.func._generated import generated

        return _by_own_rule(level, function.__name__, generated(function), args)
    return level.loop(function.__name__, args, {}, call=function.apply)


def _primals(level: Any, args: Sequence[Any]) -> list[Any]:
    return replaced(args, level.primal)


def _by_own_jvp(level: DualLevel, function: Any, args: Sequence[Any]) -> Any:
    primals = _primals(level, args)
    if has_override(*primals):  # transformations around this one: each goes through apply, and through what jvp computes
        result = function.apply(*primals)
        ctx = FunctionCtx()
        ctx._fl_function = function
        if hasattr(function, "setup_context"):
            function.setup_context(ctx, primals, result)
        else:
            function.forward(ctx, *primals)
    else:
        ctx, result = function._fl_run(primals)
    outs = list(result) if isinstance(result, tuple) else [result]
    found = _tangents_of(ctx, function.__name__, [_given(level, a, ctx._fl_materialize) for a in args], outs)
    for i, (y, t) in enumerate(zip(outs, found, strict=True)):
        written = next((a for a, p in zip(args, primals, strict=True) if p is y and level.holds(a)), None)
        if written is not None:
            ops.copy_(written._tangent, ops.zeros_like(written._tangent) if t is None else t)
            outs[i] = written
        elif t is not None:
            outs[i] = level.dual(y, t)
    return tuple(outs) if isinstance(result, tuple) else outs[0]


def _given(level: DualLevel, value: Any, materialize: bool) -> Tensor | None:
    """The tangent of an argument, as jvp gets it."""
    if not isinstance(value, Tensor):
        return None
    tangent = level.tangent(value)
    moves = value.is_floating_point() or value.is_complex()  # integers have no tangent
    return ops.zeros_like(value) if tangent is None and materialize and moves else tangent


def _tangents_of(ctx: FunctionCtx, name: str, tangents: Sequence[Any], outs: Sequence[Any]) -> list[Tensor | None]:
    """What a static jvp says of each output."""
    ctx._fl_forwards = True
    try:
        found = ctx._fl_function.jvp(ctx, *tangents)
    finally:
        ctx._fl_forwards = False
        ctx.saved_for_forward = ()
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(found) != len(outs):
        raise AutogradError(f"{name}: jvp returned {len(found)} tangents; expected {len(outs)}, one per output of forward")
    for i, (y, t) in enumerate(zip(outs, found, strict=True)):
        if t is None or (isinstance(t, Tensor) and isinstance(y, Tensor) and shape_of(t) == shape_of(y)):
            continue
        what = f"a tensor of shape {list(shape_of(t))}" if isinstance(t, Tensor) else f"a {type(t).__name__}"
        expected = f"a tensor of shape {list(shape_of(y))}" if isinstance(y, Tensor) else "nothing, since the output is no tensor"
        raise AutogradError(f"{name}: jvp returned {what} as tangent {i}; expected {expected}, or None")
    fixed = ctx._fl_fixed
    return [None if any(y is f for f in fixed) else t for y, t in zip(outs, found, strict=True)]


def _by_own_rule(level: BatchLevel, name: str, rule: Any, args: Sequence[Any]) -> Any:
    in_dims = tuple(0 if level.holds(a) else None for a in args)
    values = replaced(args, lambda x: x._value if level.holds(x) else x)
    made = rule(VmapInfo(level.size, level.randomness), in_dims, *values)
    if not isinstance(made, tuple) or len(made) != 2:
        got = f"{len(made)} values" if isinstance(made, tuple) else f"a {type(made).__name__}"
        raise AutogradError(f"{name}: its vmap returned {got}; expected two, the output and its out_dims")
    output, out_dims = made
    leaves, build = flatten(output)
    try:
        dims = spread(f"{name}.vmap", "out_dims", out_dims, output)
    except ValueError as error:
        raise AutogradError(str(error)) from None
    return build([batch_result(level, y, d) if isinstance(y, Tensor) else y for y, d in zip(leaves, dims, strict=True)])
