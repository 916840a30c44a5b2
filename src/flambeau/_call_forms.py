"""Arguments and results of calls that are replayed: nested tuples, lists and dicts of tensors and of plain values (`compiler.py`).

Arguments make a key, which tells a call from others. Of a result the form is kept, with a place for each tensor, and where its tensors come
from: arguments, what a replay makes, and views of these.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any

from flambeau import _C, _replay, nn

Tensor = _C.Tensor


class Unfit(Exception):
    """Why a call can not be replayed."""


def tensors_in(value: Any, found: list[Tensor], holders: set[int]) -> list[Tensor]:
    """The tensors of a result, in order; `holders` are what was given, of which no list or dict may be in it."""
    if isinstance(value, Tensor):
        if _C.has_override(value):
            raise Unfit(f"a result is a {type(value).__name__}, which takes calls over (__torch_function__)")
        if value.__dict__ and id(value) not in holders:
            raise Unfit(f"a tensor of its result has attributes ({', '.join(value.__dict__)})")
        found.append(value)
    elif isinstance(value, (tuple, list, dict)):
        if not isinstance(value, tuple) and id(value) in holders:
            raise Unfit(f"one {type(value).__name__} is twice in its result, holds itself, or is an argument")
        holders.add(id(value))
        if not _rebuilds(value):
            raise Unfit(f"a result of type {type(value).__name__} is more than its items")
        for v in value.values() if isinstance(value, dict) else value:
            tensors_in(v, found, holders)
    elif not (value is None or isinstance(value, (bool, int, float, complex, str, bytes, _C.dtype, _C.device))):
        raise Unfit(f"a result of type {type(value).__name__} is neither a tensor nor a plain value")
    return found


def _rebuilds(value: Any) -> bool:
    """Whether a tuple, list or dict is made again from its items by `filled`."""
    kind = type(value)
    if kind in (tuple, list, dict, OrderedDict, defaultdict):
        return True
    if isinstance(value, dict):  # a dict that is a dataclass of its items
        return dataclasses.is_dataclass(kind) and {f.name for f in dataclasses.fields(kind)} >= value.keys()
    if getattr(value, "__dict__", None):
        return False
    return hasattr(kind, "_fields") or not any(isinstance(f, types.FunctionType) for f in (kind.__new__, kind.__init__))


_modules: weakref.WeakKeyDictionary[nn.Module, tuple[int, int, tuple[bool, ...]]] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def described(value: Any) -> Any:
    """What tells an argument that is no plain value: of a module which one it is, and the modes of its parts."""
    if isinstance(value, _C.device):
        return str(value)
    if isinstance(value, Tensor):
        raise Unfit(f"an argument is a {type(value).__name__}, which takes calls over (__torch_function__)")
    if not isinstance(value, nn.Module):
        raise Unfit(f"an argument of type {type(value).__name__} is neither a tensor nor a plain value")
    version = _C.graph.objects_version()
    known = _modules.get(value)
    if known is None or known[1] != version:
        known = (known[0] if known else next(_numbers), version, tuple(m.training for m in value.modules()))
        _modules[value] = known
    return (known[0], known[2])


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Tensor]]:
    """What tells a call from others (None: it has to be recorded), and the tensors among its arguments."""
    key, tensors = _C.graph.call_key(args, kwargs, described)
    device = _C.new_device()
    return (key if device is None or key is None else (key, str(device))), tensors


def attributes_of(tensors: list[Tensor]) -> list[dict[str, int]]:
    return [{k: id(v) for k, v in t.__dict__.items()} for t in tensors]


def filled(value: Any, tensors: Iterator[Any]) -> Any:
    """`value` with other things in the places of its tensors, in order."""
    if isinstance(value, (Tensor, Place)):
        return next(tensors)
    if isinstance(value, dict):
        entries = {k: filled(v, tensors) for k, v in value.items()}
        if type(value) is dict:
            return entries
        if isinstance(value, defaultdict):
            return defaultdict(value.default_factory, entries)
        return OrderedDict(entries) if type(value) is OrderedDict else type(value)(**entries)
    if isinstance(value, (tuple, list)):
        items = [filled(v, tensors) for v in value]
        # A named tuple's own __new__ may look at what it is given, which are places here.
        return tuple.__new__(type(value), items) if hasattr(value, "_fields") else type(value)(items)  # type: ignore[type-var]
    return value


def references(values: list[Any]) -> dict[int, int]:
    """How many references there are to each tensor, list and dict among `values`, beside those from `values` themselves."""
    found: dict[int, list[Any]] = {}
    left: list[Any] = [values]
    while left:
        holder = left.pop()
        items = [*holder.values(), *getattr(holder, "__dict__", {}).values()] if isinstance(holder, dict) else holder
        for v in items:
            if isinstance(v, (Tensor, tuple, list, dict)):
                entry = found.setdefault(id(v), [v, 0])
                entry[1] += 1
                if entry[1] == 1 and not isinstance(v, Tensor):
                    left.append(v)
        holder = items = v = None
    for entry in found.values():  # a tuple of plain values may be a constant
        if not isinstance(entry[0], tuple) or any(isinstance(v, (Tensor, tuple, list, dict)) for v in entry[0]):
            left.append((id(entry[0]), sys.getrefcount(entry[0]) - entry[1]))
    return dict(left)


@functools.cache
def references_alone() -> int:
    """What `references` says of a tensor that nobody else holds."""
    return next(iter(references([Tensor()]).values()))


def is_look(y: Tensor, base: Tensor) -> bool:
    """Whether a view is made of its base by sizes and strides, or of its real numbers."""
    return y.dtype is base.dtype or (base.dtype.is_complex and y.dtype is base.dtype.to_real())


class Place:
    """Stands for a tensor in the form of a result."""

    def __repr__(self) -> str:
        return "<tensor>"


Lies = tuple[Any, Any, int]  # sizes, strides, offset
View = tuple[int, Lies, bool]  # of what (as `given` says), how it lies, and whether of its real numbers


class Entry:
    """What is known about calls of one key and one geometry."""

    __slots__ = ("again", "alone", "calls", "confirmed", "form", "given", "program", "version", "views")

    def __init__(
        self, program: _C.graph.Program, form: Any, given: list[int], views: list[View], again: list[_replay.Again], version: int
    ) -> None:
        self.program = program
        self.form = form           # of the result
        self.given = given         # per tensor of the result: which argument it is, or -1 - k for the k-th that a run makes; views follow
        self.views = views         # what is a view of an argument or of what a run makes
        self.again = again         # what Python does beside at each call
        self.version = version     # of objects that ops were given by: another one means to look again
        self.confirmed = False
        self.calls = 0
        # Which tensor that a run makes is the result and all that there is to do, as most often: -1 where there is more.
        self.alone = -1 - given[0] if type(form) is Place and given[0] < 0 and not views and not again else -1

    def result(self, tensors: list[Tensor], made: list[Tensor]) -> Any:
        """What the function returns, of its arguments and what a run made."""
        if self.views:
            made = [*made]
        for base, geometry, real in self.views:  # so that what is written into them by differentiable ops is known to the base
            of = tensors[base] if base >= 0 else made[-1 - base]
            made.append((_C.ops.view_as_real(of) if real else of).as_strided(*geometry))
        if type(self.form) is Place:
            g = self.given[0]
            return tensors[g] if g >= 0 else made[-1 - g]
        return filled(self.form, iter([tensors[g] if g >= 0 else made[-1 - g] for g in self.given]))

    def run(self, tensors: list[Tensor]) -> list[Tensor] | None:
        """The results of a replay; None where the call has to be recorded."""
        if not self.again:
            return self.program.run(tensors)
        if not self.program.takes(tensors) or not all(a.ready() for a in self.again):
            return None
        begun = []
        out = None
        try:
            for a in self.again:
                begun.append(a)
                if not a.begin():
                    self.version = -1  # what is recorded now may differ
                    break
            else:
                out = self.program.run(tensors)
        finally:
            for a in begun:
                if out is None:
                    a.undo()
                else:
                    a.end()
        return out
