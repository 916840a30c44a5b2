"""The tables that modules keep parts and hooks in, and what a `register_*_hook` returns."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flambeau._C import graph

_next_id = itertools.count()
_changed = graph.objects_changed
_put, _remove, _put_in_order = dict.__setitem__, dict.__delitem__, OrderedDict.__setitem__
F = TypeVar("F", bound=Callable[..., Any])


def _new_id(tables: Iterable[Any]) -> int:
    """One under which no table has a hook: what is there may have been put in by hand, or come from another process."""
    while True:
        i = next(_next_id)
        for table in tables:
            if i in table:
                break
        else:
            return i


def _announced(method: F) -> F:
    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        graph.objects_changed()
        return method(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


class Table(dict):  # type: ignore[type-arg]
    """A dict whose changes compiled functions hear of: what they recorded may be something else now."""

    def __setitem__(self, key: Any, value: Any) -> None:
        _changed()
        _put(self, key, value)

    def __delitem__(self, key: Any) -> None:
        _changed()
        _remove(self, key)

    __ior__ = _announced(dict.__ior__)  # type: ignore[assignment]
    clear = _announced(dict.clear)
    pop = _announced(dict.pop)
    popitem = _announced(dict.popitem)
    setdefault = _announced(dict.setdefault)
    update = _announced(dict.update)


class HookTable(OrderedDict, Table):  # type: ignore[type-arg,misc]
    """The same for hooks, in an order that can be changed.

    A module looks at one table, `leader` of the others that its calls need: whatever is put into one of them, in whatever way, marks the
    leader as `hooked`, so `module._backward_hooks[0] = f` is called, too. Of the class it is True once there was a hook of all modules.
    """

    hooked = False
    leader: HookTable | None = None

    def __setitem__(self, key: Any, hook: Any) -> None:
        _changed()
        (self if self.leader is None else self.leader).hooked = True
        _put_in_order(self, key, hook)

    __delitem__ = _announced(OrderedDict.__delitem__)
    clear = _announced(OrderedDict.clear)
    move_to_end = _announced(OrderedDict.move_to_end)
    pop = _announced(OrderedDict.pop)
    popitem = _announced(OrderedDict.popitem)

    def __reduce__(self) -> Any:
        return type(self), (), None, None, iter(self.items())

    def __repr__(self) -> str:
        return repr(OrderedDict(self))


def put_hook(table: OrderedDict[int, Any], hook: Any, prepend: bool, *marks: dict[int, Any]) -> RemovableHandle:
    """Puts a hook into a table, behind or before all others, and under the same key into those that mark some of them."""
    handle = RemovableHandle(table, extra_dict=marks)
    for mark in marks:
        mark[handle.id] = True
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


class RemovableHandle:
    """What a `register_*_hook` returns: `remove()` takes the hook out again; also a context
    manager.

    Args:
        hooks_dict: where the hook is put under the handle's `id`.
        extra_dict: a dict, or a list of some, that have entries of the same key.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        if extra_dict is None or extra_dict == ():
            self.id = _new_id((hooks_dict,))
            self._tables = [weakref.ref(hooks_dict)]
            return
        tables = (hooks_dict, *([extra_dict] if isinstance(extra_dict, dict) else extra_dict))
        self.id = _new_id(tables)
        self._tables = [weakref.ref(table) for table in tables]

    @property
    def hooks_dict_ref(self) -> Any:
        """A weak reference to the table that has the hook."""
        return self._tables[0]

    def remove(self) -> None:
        """Takes the hook out; doing so twice is harmless."""
        for ref in self._tables:
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return (self.id, [ref() for ref in self._tables])

    def __setstate__(self, state: Any) -> None:
        global _next_id
        mine = next(_next_id)
        self.id = mine if state[0] is None else state[0]
        if self.id >= mine:  # of another process: no handle to come is to remove what this one put in, nor this one what that did
            _next_id = itertools.count(self.id + 1)
        self._tables = [weakref.ref(t if t is not None else HookTable()) for t in state[1]]


class GradientHandle(RemovableHandle):
    """The same of hooks that the core keeps: those of tensors and of nodes.

    A copy or what comes from a pickle removes nothing: hooks stay with the tensor that they were put on.
    """

    def __init__(self, *removers: Any) -> None:
        super().__init__(HookTable())
        self._fl_removers = removers

    def remove(self) -> None:
        """The hooks are not called any more."""
        for remover in self._fl_removers:
            remover.remove()

    def __reduce__(self) -> Any:
        return RemovableHandle, (HookTable(),)
