"""The tables that modules keep parts and hooks in, and what a `register_*_hook` returns."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau._C import graph

_next_id = itertools.count()
F = TypeVar("F", bound=Callable[..., Any])


def _announced(method: F) -> F:
    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        graph.objects_changed()
        return method(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


class Table(dict):  # type: ignore[type-arg]
    """A dict whose changes compiled functions hear of: what they recorded may be something else now."""

    __setitem__ = _announced(dict.__setitem__)
    __delitem__ = _announced(dict.__delitem__)
    __ior__ = _announced(dict.__ior__)  # type: ignore[assignment]
    clear = _announced(dict.clear)
    pop = _announced(dict.pop)
    popitem = _announced(dict.popitem)
    setdefault = _announced(dict.setdefault)
    update = _announced(dict.update)


def _noticed(method: F) -> F:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = self.owner() if self.owner is not None else None
        if owner is not None:
            owner.__dict__["_hooked"] = True
        return method(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


class HookTable(Table):
    """One that can be weakly referenced, so that a handle does not keep its owner alive.

    `owner` refers weakly to a module, which hears of what is put into the table in whatever way: `module._forward_hooks[0] = f` is
    called, too.
    """

    owner: weakref.ref[Any] | None = None

    __setitem__ = _noticed(Table.__setitem__)
    __ior__ = _noticed(Table.__ior__)  # type: ignore[assignment]
    setdefault = _noticed(Table.setdefault)
    update = _noticed(Table.update)

    def __reduce__(self) -> Any:
        return type(self), (), None, None, iter(self.items())

    def prepend(self, key: int, hook: Any) -> None:
        """Puts `hook` before all others."""
        rest = list(self.items())
        self.clear()
        self[key] = hook
        self.update(rest)


class RemovableHandle:
    """What a `register_*_hook` returns: `remove()` takes the hook out again; also a context
    manager.

    Args:
        hooks_dict: where the hook is put under the handle's `id`.
        extra_dict: a dict, or a list of some, that have entries of the same key.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_next_id)
        extra = [] if extra_dict is None else [extra_dict] if isinstance(extra_dict, dict) else extra_dict
        self._tables = [weakref.ref(table) for table in (hooks_dict, *extra)]

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
        self.id = next(_next_id) if state[0] is None else state[0]
        self._tables = [weakref.ref(t if t is not None else HookTable()) for t in state[1]]
