"""Transformations that run, and the tensors that stand for values inside of them.

    vmap(jvp(f))      level 1: a batch       x = Batched(level 1, value)
                      level 2: a direction   x = Dual(level 2, primal = Batched(level 1), tangent)

Note [Levels]
Each call of a transformation that wraps values opens a level, numbered in the order of opening; those further in have higher
numbers. A `Wrapped` tensor belongs to one level and holds values that are plain, or wrapped for lower levels. Every native call that
meets a wrapped tensor comes here (`__torch_function__`), and is handed to the highest level among its arguments. That level's
rule calls ops on what its tensors hold, which are handed on in the same way until all values are plain. Tensors of lower levels are
constants to it. So derivatives by different directions, and batches over different axes, do not mix.

Reverse mode needs no level: it differentiates plain values by the graph that the core records (`_reverse.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import CONFUSED, said_by_op
from flambeau.func._table import call_of, name_of

Tensors = Sequence[Tensor]
_numbers = itertools.count(1)
_REFLECTED = {
    f"__r{short}__": name
    for short, name in {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "pow": "pow",
        "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
        "matmul": "matmul",
    }.items()
}  # fmt: skip


class Level:
    """One running transformation."""

    size: int | None = None  # of a batch

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.open = True
        self._adopted: list[tuple[Any, Tensor]] = []

    def give_back(self) -> None:
        """At the end: tensors that the level made its own are what they were, with what was written to them."""
        for x, inner in reversed(self._adopted):
            held = {name: vars(x).pop(name) for name in _HELD if name in vars(x)}
            x.__class__ = type(inner)
            vars(x).update(_held(inner))
            self.given_back(x, held)
        self._adopted.clear()

    def given_back(self, x: Tensor, held: Mapping[str, Any]) -> None:
        """A tensor is no longer one of the level's; `held` is what it had as such."""

    def adopt(self, x: Any, inner: Tensor, kind: type[Wrapped], **held: Any) -> Any:
        """Makes a tensor of no level, or of one further out, one of this level's until it ends: for what is written to it is.

        `inner`, a twin of x, is what x was. Whoever else sees the memory would have to be told, and can not: ask `may_adopt`.
        """
        sizes, dtype = shape_of(x), dtype_of(x)
        for name in _HELD & vars(x).keys():
            del vars(x)[name]
        x.__class__ = kind
        vars(x).update(held, _level=self, _sizes=sizes, _kind=dtype)
        self._adopted.append((x, inner))
        return x

    def run(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call that has tensors of this level among its arguments, and of no higher one."""
        raise NotImplementedError

    def ended(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The same, once the transformation has returned."""
        raise NotImplementedError

    def wrap(self, value: Tensor) -> Wrapped:
        """The batch along axis 0 of value, where the level is one of batches."""
        raise NotImplementedError

    def repeated(self, value: Tensor) -> Wrapped:
        """The same of a value that repeats one sample along axis 0."""
        raise NotImplementedError

    def pullback(self, ys: Tensors, xs: Tensors, vs: Tensors, keep: bool, retain: bool, others: Tensors) -> list[Tensor]:
        """`_pullback.pullback` where tensors of this level are among the arguments, and of no higher one."""
        raise NotImplementedError


# What a wrapped tensor has beside what its user gave it.
_HELD = frozenset(("_level", "_sizes", "_kind", "_primal", "_tangent", "_family", "_owned", "_value", "_repeats"))


def _held(x: Tensor) -> dict[str, Any]:
    return {name: vars(x)[name] for name in _HELD if name in vars(x)}


def may_adopt(x: Any) -> bool:
    """Whether a level can make a tensor its own: one whose memory nobody else sees, and at which no gradient is asked for."""
    if type(x) is not Tensor and not isinstance(x, Wrapped) or not (dtype_of(x).is_floating_point or dtype_of(x).is_complex):
        return False
    plain = held_by(x)
    alone = type(plain) is Tensor and plain._base is None and _C.graph.owners([plain], []) == [vars(plain).get("_fl_seen", 1)]
    return alone and not (type(x) is Tensor and x.requires_grad) and not vars(x).get("_family", False)


def may_adopt_with_base(x: Any) -> bool:
    """The same of a view and what it is a view of, where there is no other one."""
    base = x._base if type(x) is Tensor else None
    if type(base) is not Tensor or not (base.dtype is x.dtype and (x.is_floating_point() or x.is_complex())):
        return False
    seen = [vars(one).get("_fl_seen", 1) for one in (x, base)]
    return not (x.requires_grad or base.requires_grad) and seen == [1, 1] and base.is_contiguous() and _C.graph.owners([base], []) == [2]


def twin(x: Tensor) -> Tensor:
    """Another tensor that is what x is, for x to become something else."""
    made: Tensor
    if isinstance(x, Wrapped):
        made = Tensor._make_subclass(type(x), _C.ops.empty(x._sizes, dtype=x._kind, device="meta"), False)
        vars(made).update(_held(x))
    else:
        made = x.detach()
        vars(made)["_fl_seen"] = vars(x).get("_fl_seen", 1) + 1  # by levels: to others further out it is still seen by nobody else
    return made


class Wrapped(Tensor):
    """A tensor that stands for another one while a transformation runs."""

    _level: Level
    _sizes: tuple[int, ...]
    _kind: Any
    _sees_parts = True  # of functions in Python, what they call

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return dispatch(name_of(func), args, kwargs or {})

    def _fl_become(self, view: Wrapped) -> None:
        """From now on it is this view of it: what `t_` and its kin do."""
        vars(self).update(_held(view))

    def _parts(self) -> list[Tensor]:
        """What it holds: first what is differentiated."""
        raise NotImplementedError

    def _of(self, parts: Sequence[Tensor]) -> Wrapped:
        """The like of it that holds others."""
        raise NotImplementedError


class _Active(threading.local):
    """What the thread is inside of, the innermost last."""

    def __init__(self) -> None:
        self.levels: list[Level] = []


active = _Active()


@contextlib.contextmanager
def opened(level: Level) -> Iterator[None]:
    """While it lasts, this thread is inside of the level."""
    levels = active.levels
    try:
        levels.append(level)
        yield
    finally:
        level.open = False
        if level in levels:
            levels.remove(level)
        if level._adopted:
            level.give_back()


def wrapped_in(values: Iterable[Any]) -> Iterator[Wrapped]:
    """The wrapped tensors among arguments, also those in tuples and lists."""
    for value in values:
        if isinstance(value, Wrapped):
            yield value
        elif type(value) in (tuple, list):
            yield from wrapped_in(value)


def highest(values: Iterable[Any]) -> Level | None:
    """The innermost level whose tensors are among values."""
    top: Level | None = None
    for tensor in wrapped_in(values):
        if top is None or tensor._level.number > top.number:
            top = tensor._level
    return top


def dispatch(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls the op, method or attribute of this name: see Note [Levels]."""
    top = highest(args)
    if kwargs:
        inner = highest(kwargs.values())
        top = inner if top is None or (inner is not None and inner.number > top.number) else top
    if top is None:
        return call_of(name)(*args, **kwargs)
    if name in _REFLECTED:
        name, args = _REFLECTED[name], args[::-1]
    try:
        return top.run(name, args, kwargs) if top.open else top.ended(name, args, kwargs)
    except CONFUSED as error:
        found = said_by_op(error, name, lambda *args, **kwargs: call_of(name)(*args, **kwargs), args, kwargs)
        if found is not error:
            raise found from None
        raise


def shape_of(x: Tensor) -> tuple[int, ...]:
    """The shape, without asking a rule."""
    return x._sizes if isinstance(x, Wrapped) else tuple(x.shape)


def dtype_of(x: Tensor) -> Any:
    """The element type, without asking a rule."""
    return x._kind if isinstance(x, Wrapped) else x.dtype


def has_tangent(x: Tensor) -> bool:
    """True for what forward mode follows, also inside of batches."""
    while isinstance(x, Wrapped):
        if x._level.size is None:
            return True
        x = x._parts()[0]
    return False


def held_by(x: Tensor) -> Tensor:
    """All that a wrapped tensor stands for in one plain tensor: every sample of a batch, without tangents."""
    while isinstance(x, Wrapped):
        x = x._parts()[0]
    return x


def replaced(values: Iterable[Any], change: Any) -> list[Any]:
    """Arguments with each tensor, also in tuples and lists, put through `change`."""
    out: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            out.append(change(value))
        elif type(value) in (tuple, list):
            out.append(type(value)(replaced(value, change)))
        else:
            out.append(value)
    return out
