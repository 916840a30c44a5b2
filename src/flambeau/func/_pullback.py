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
from flambeau.func._batched import Batched, BatchLevel
from flambeau.func._dual import Dual, DualLevel
from flambeau.func._levels import Wrapped, active, dtype_of, highest, shape_of


def running_batches() -> list[BatchLevel]:
    """The vmaps that the thread is inside of, the innermost last."""
    return [level for level in active.levels if isinstance(level, BatchLevel)]


def batches_of(values: Iterable[Any]) -> list[BatchLevel]:
    """The vmaps whose batches are among values, or inside of them; the innermost last."""
    found: dict[int, BatchLevel] = {}

    def look(x: Any) -> None:
        if isinstance(x, Batched):
            found[x._level.number] = x._level
            look(x._value)
        elif isinstance(x, Dual):
            look(x._primal)
            look(x._tangent)

    for value in values:
        look(value)
    return [found[number] for number in sorted(found)]


def stand_in(x: Tensor, levels: Sequence[BatchLevel], keep: bool) -> Tensor:
    """An alias of x at which gradients can be asked for, and a batch of each level; with `keep` it stays in the graph that x is in."""
    top = x._level.number if isinstance(x, Wrapped) else 0
    if levels and levels[-1].number > top:
        level = levels[-1]
        return level.wrap(stand_in(ops.expand(x, (level.size, *shape_of(x))), levels[:-1], keep))
    below = [level for level in levels if level.number < top]
    if isinstance(x, Batched):
        return x._level.wrap(stand_in(x._value, below, keep))
    if isinstance(x, Dual):
        return x._level.dual(stand_in(x._primal, below, keep), x._tangent)
    return x.view_as(x) if keep and x.requires_grad else x.detach().requires_grad_()


def pullback(
    ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor], keep: bool, retain: bool = True, others: Sequence[Tensor] = ()
) -> list[Tensor]:
    """v times the Jacobian of y by x, for stand-ins x; zeros where nothing leads there.

    Args:
        keep: the results may be differentiated, where they depend on anything besides xs and others.
        others: plain stand-ins that are not asked about.
    """
    level = highest((*ys, *xs, *vs))
    if level is None:
        return _plain(ys, xs, vs, keep, retain, others)
    if isinstance(level, DualLevel):
        return _dual(level, ys, xs, vs, keep, others)
    assert isinstance(level, BatchLevel)
    if any(level.holds(x) for x in xs):
        inner = [x._value if isinstance(x, Batched) and level.holds(x) else x for x in xs]
        found = pullback([level.full(y) for y in ys], inner, [level.full(v) for v in vs], keep, retain, others)
        return [level.wrap(g) if level.holds(x) else g for g, x in zip(found, xs, strict=True)]
    rows = []
    for i in range(level.size):
        rows.append(pullback([_sample(level, y, i) for y in ys], xs, [_sample(level, v, i) for v in vs], keep, others=others))
    if not rows:
        return [level.wrap(ops.empty((0, *shape_of(x)), dtype=dtype_of(x))) for x in xs]
    return [level.wrap(ops.stack(list(column))) for column in zip(*rows, strict=True)]


def _sample(level: BatchLevel, x: Tensor, i: int) -> Tensor:
    return ops.select(x._value, 0, i) if isinstance(x, Batched) and level.holds(x) else x


def _plain(ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor], keep: bool, retain: bool, others: Sequence[Tensor]) -> list[Tensor]:
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(xs)
    if pairs:
        roots, given = [y for y, _ in pairs], [v for _, v in pairs]
        create = keep and _C.reaches_others([*roots, *given], [*xs, *others])
        found = _C.run_backward(roots, given, retain or create, create, xs, False, True)
    return [ops.zeros_like(x.detach()) if g is None else g for g, x in zip(found, xs, strict=True)]


def _dual(level: DualLevel, ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor], keep: bool, others: Sequence[Tensor]) -> list[Tensor]:
    """The tangent of a gradient v J is the gradient of v times the tangent of y, plus the tangent of v times J."""
    inner = [level.primal(x) for x in xs]
    found = pullback([level.primal(y) for y in ys], inner, [level.primal(v) for v in vs], keep, others=others)
    tops: list[Tensor] = []
    weights: list[Tensor] = []
    for y, v in zip(ys, vs, strict=True):
        if (t := level.tangent(y)) is not None:
            tops.append(t)
            weights.append(level.primal(v))
        if (t := level.tangent(v)) is not None:
            tops.append(level.primal(y))
            weights.append(t)
    if not tops:
        return found
    return [level.dual(g, t) for g, t in zip(found, pullback(tops, inner, weights, keep, others=others), strict=True)]


def plain_parts(values: Iterable[Tensor]) -> Iterator[Tensor]:
    """The plain tensors that values hold."""
    for x in values:
        if isinstance(x, Batched):
            yield from plain_parts((x._value,))
        elif isinstance(x, Dual):
            yield from plain_parts((x._primal, x._tangent))
        else:
            yield x


def finished(x: Any, xs: Sequence[Tensor], keep: bool) -> Any:
    """A result as it leaves a derivative: without a graph that leads to nothing but the stand-ins xs."""
    if isinstance(x, Batched):
        return x._level.wrap(finished(x._value, xs, keep))
    if isinstance(x, Dual):
        return x._level.dual(finished(x._primal, xs, keep), finished(x._tangent, xs, keep))
    if not isinstance(x, Tensor) or not x.requires_grad:
        return x
    return x if keep and _C.reaches_others([x], list(plain_parts(xs))) else x.detach()
