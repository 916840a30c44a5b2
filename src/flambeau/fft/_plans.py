"""What most calls are: transforms of plain tensors, in a type that is computed in, in sizes that ops transform, and without gradients.

Such a call is some ops in a row, with arguments that follow from the shape, the type and what the call says. They are worked out once and
kept as a plan, since for small tensors that takes longer than the ops. A call that is none of these has no plan: it goes the way of all
calls, where errors are raised, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.fft._arguments import axes_of, norm_of
from flambeau.fft._linear import COMPLEX, OTHER, REAL, Step, is_ours, resizing, steps_of

_PLANS = 512  # that are kept


def at_once(name: str, x: Any, s: Any, dim: Any, norm: Any) -> Tensor | None:
    """The transform `name` along several axes, one of those of `_KINDS`, by its plan; None where there is none."""
    if type(x) is not Tensor or (x.requires_grad and _C.is_grad_enabled()):
        return None
    try:
        plan = _plan(name, x.dtype, x.shape, tuple(s) if type(s) is list else s, tuple(dim) if type(dim) is list else dim, norm)
    except TypeError:  # something that is no number
        return None
    if plan is None:
        return None
    for op, args in plan:
        x = op(x, *args)
    return x  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=_PLANS)
def _plan(name: str, dtype: Any, shape: Sequence[int], s: Any, dim: Any, norm: Any) -> tuple[Step, ...] | None:
    for value in (s, dim):
        if value is not None and type(value) is not int and not (type(value) is tuple and all(type(e) is int for e in value)):
            raise TypeError  # which is not kept: a tensor may be another number later
    if dtype not in REAL and dtype not in COMPLEX:
        return None
    try:
        axes, wanted = axes_of(name, shape, s, dim)
        how = norm_of(name, norm)
    except (ValueError, IndexError):
        return None
    if not axes or 0 in shape:
        return None
    steps = _KINDS[name](name, dtype, list(shape), axes, wanted, how)
    return None if steps is None else tuple(steps)


# ---------------------------------------------------------------- what the plans of each kind are

_Wanted = Sequence["int | None"]


def _fit(shape: list[int], axes: Sequence[int], sizes: _Wanted) -> list[Step]:
    """What gives the axes of a tensor of this shape their sizes; the shape becomes what it has then."""
    steps: list[Step] = []
    for d, n in zip(axes, sizes, strict=True):
        if n is not None:
            steps += resizing(shape, d, n)
            shape[d] = n
    return steps


def _are_ours(sizes: Sequence[int], elements: int) -> bool:
    return all(is_ours(n, elements < 4 * n) for n in sizes)


def _c2c(name: str, dtype: Any, shape: list[int], axes: Sequence[int], wanted: _Wanted, norm: str) -> list[Step] | None:
    steps = _fit(shape, axes, wanted)
    sizes = [shape[d] for d in axes]
    return steps + steps_of(name, dtype, sizes, axes, norm) if _are_ours(sizes, math.prod(shape)) else None


def _r2c(name: str, dtype: Any, shape: list[int], axes: Sequence[int], wanted: _Wanted, norm: str) -> list[Step] | None:
    return None if dtype in COMPLEX else _c2c(name, dtype, shape, axes, wanted, norm)


def _c2r(name: str, dtype: Any, shape: list[int], axes: Sequence[int], wanted: _Wanted, norm: str) -> list[Step] | None:
    n = wanted[-1] if wanted[-1] is not None else 2 * (shape[axes[-1]] - 1)
    if n < 1:
        return None
    steps: list[Step] = [] if dtype in COMPLEX else [(ops.cast, (dtype.to_complex(),))]
    steps += _fit(shape, axes, [*wanted[:-1], n // 2 + 1])
    shape[axes[-1]] = n
    sizes = [shape[d] for d in axes]
    return steps + steps_of(name, dtype, sizes, axes, norm) if _are_ours(sizes, math.prod(shape)) else None


def _hermitian(name: str, dtype: Any, shape: list[int], axes: Sequence[int], wanted: _Wanted, norm: str) -> list[Step] | None:
    """Those of `_hermitian.py`."""
    if name == "hfftn":
        steps = _c2r("irfftn", dtype, shape, axes, wanted, OTHER[norm])
        return steps and [(ops.conj, ()), *steps]
    steps = _r2c("rfftn", dtype, shape, axes, wanted, OTHER[norm])
    return steps and [*steps, (ops.conj, ())]


_KINDS: dict[str, Callable[..., list[Step] | None]] = {
    "fftn": _c2c, "ifftn": _c2c, "rfftn": _r2c, "irfftn": _c2r, "hfftn": _hermitian, "ihfftn": _hermitian,
}  # fmt: skip
