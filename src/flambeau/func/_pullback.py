"""Gradients of values that may be wrapped, by the graph that the core records of plain ones.

A function that is differentiated is called with stand-ins of its inputs: aliases at which a gradient can be asked for. Inside of `vmap`
these are batches, one copy per sample without memory of its own (`expand`). So one backward of a batch of results gives each sample its
own gradient, and formulas need no rules for batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._memory_format import strided
from flambeau._running import run_backward
from flambeau.autograd.modes import enable_grad, inference_mode
from flambeau.func._levels import Level, Tensors, Wrapped, active, held_by, highest, shape_of


def running_batches() -> list[Level]:
    """The vmaps that the thread is inside of, the innermost last."""
    return [level for level in active.levels if level.size is not None]


def batches_of(values: Iterable[Any]) -> list[Level]:
    """The vmaps whose batches are among values, or inside of them; the innermost last."""
    found: dict[int, Level] = {}
    todo = list(values)
    while todo:
        x = todo.pop()
        if isinstance(x, Wrapped):
            if x._level.size is not None:
                found[x._level.number] = x._level
            todo.extend(x._parts())
    return [found[number] for number in sorted(found)]


def recording() -> Any:
    """Gradients are recorded in it, whatever the mode around: that is the caller's, and what a transform asks for is its own."""
    return inference_mode(False) if _C.is_inference_mode_enabled() else enable_grad()


def differentiating() -> Any:
    """`recording`, around a function that is differentiated: there nothing that has a gradient is written to tensors from outside of it."""
    return _C.DerivativeSwitch()


def stand_in(x: Tensor, levels: Sequence[Level], keep: bool) -> Tensor:
    """An alias of x at which gradients can be asked for, and a batch of each level; with `keep` it stays in the graph that x is in."""
    top = x._level.number if isinstance(x, Wrapped) else 0
    if levels and levels[-1].number > top:
        level = levels[-1]
        copies = ops.expand(x, (level.size, *shape_of(x)))  # type: ignore[arg-type]  # levels of batches alone get here
        return level.repeated(stand_in(copies, levels[:-1], keep))
    if isinstance(x, Wrapped):
        first, *rest = x._parts()
        return x._of([stand_in(first, [level for level in levels if level.number < top], keep), *rest])
    if keep and x.requires_grad:
        return x.view_as(x)
    return (x.clone() if x.layout is strided and x.is_inference() else x.detach()).requires_grad_()


def pullback(ys: Tensors, xs: Tensors, vs: Tensors, keep: bool, retain: bool = True, others: Tensors = ()) -> list[Tensor]:
    """v times the Jacobian of y by x, for stand-ins x; zeros where nothing leads there.

    Args:
        keep: the results may be differentiated, where they depend on anything besides xs and others.
        others: plain stand-ins that are not asked about.
    """
    level = highest((*ys, *xs, *vs))
    if level is not None:
        return level.pullback(ys, xs, vs, keep, retain, others)
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
    if not pairs:
        return [ops.zeros_like(x.detach()) for x in xs]
    roots, given = [y for y, _ in pairs], [v for _, v in pairs]
    create = keep and _C.reaches_others([*roots, *given], [*xs, *others])
    return _found(roots, given, xs, create, retain)


def pullbacks(y: Tensor, xs: Tensors, vs: Tensors, keep: bool) -> list[list[Tensor]]:
    """`pullback` of one y for each of several v, which have no history."""
    if highest((y, *xs, *vs)) is not None or not y.requires_grad:
        return [pullback([y], xs, [v], keep) for v in vs]
    create = keep and _C.reaches_others([y], list(xs))
    return [_found([y], [v], xs, create, True) for v in vs]


def _found(roots: Tensors, given: Tensors, xs: Tensors, create: bool, retain: bool) -> list[Tensor]:
    found = run_backward(roots, given, retain or create, create, xs, False, True)
    return [ops.zeros_like(x.detach()) if g is None else g for g, x in zip(found, xs, strict=True)]


def plain_parts(values: Iterable[Tensor]) -> Iterator[Tensor]:
    """The plain tensors that values hold."""
    for x in values:
        if isinstance(x, Wrapped):
            yield from plain_parts(x._parts())
        else:
            yield x


def plain_stands(xs: Tensors) -> list[Tensor]:
    """What stands for the inputs in the graph; the tangents that stand-ins have, too, are whose they were."""
    return [held_by(x) for x in xs]


def end(xs: Tensors) -> None:
    """Ends stand-ins at which nobody will ask for a gradient any more: what depends on them alone is to have no history."""
    for x in plain_stands(xs):
        if x.requires_grad and x.is_leaf:
            x.requires_grad_(False)


def finished(x: Any, xs: Tensors, keep: bool) -> Any:
    """A result as it leaves a derivative: without a graph that leads to nothing but the stand-ins xs."""
    if isinstance(x, Wrapped):
        return x._of([finished(part, xs, keep) for part in x._parts()])
    if not isinstance(x, Tensor) or not x.requires_grad:
        return x
    return x if keep and _C.reaches_others([x], plain_stands(xs)) else x.detach()
