"""What is replaced while a program is traced, and put back at its end: how modules are called, and functions that are wrapped."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import Proxy

__all__ = ["Patcher", "wrap", "wrapped_function"]

_MISSING: Any = object()
# (id of a module's globals, name) -> the globals: what `wrap` has marked.
wrapped_names: dict[tuple[int, str], dict[str, Any]] = {}


class Patcher:
    """Replaces attributes and names; leaving the region puts them back, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._seen.clear()

    def patch(self, frame_dict: dict[str, Any], name: str, new: Any) -> None:
        """Gives a name in a module's globals another meaning."""
        old = frame_dict.get(name, _MISSING)
        frame_dict[name] = new
        self._undo.append(lambda: frame_dict.pop(name, None) and None if old is _MISSING else frame_dict.__setitem__(name, old))

    def patch_method(self, cls: type, name: str, new: Any) -> None:
        """Gives a class another method."""
        own = vars(cls).get(name, _MISSING)
        setattr(cls, name, new)
        self._undo.append(lambda: delattr(cls, name) if own is _MISSING else setattr(cls, name, own))

    def visit_once(self, thing: Any) -> bool:
        """True the first time."""
        new = id(thing) not in self._seen
        self._seen.add(id(thing))
        return new


def find_tracer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tracer of a proxy among arguments, or None."""
    found: list[Any] = []
    map_aggregate((args, kwargs), lambda x: found.append(x.tracer) if isinstance(x, Proxy) else x)
    return found[0] if found else None


def wrapped_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, recorded as one call where it gets a proxy."""

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tracer = find_tracer(args, kwargs)
        if tracer is None:
            return original(*args, **kwargs)
        proxy = tracer.create_proxy("call_function", original, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy

    return wrapped


def patch_wrapped(patcher: Patcher) -> None:
    """Replaces what `wrap` has marked."""
    for (_, name), space in list(wrapped_names.items()):
        original = space.get(name, getattr(builtins, name, _MISSING))
        if original is not _MISSING:
            patcher.patch(space, name, wrapped_function(original))


def patch_listed(patcher: Patcher, space: dict[str, Any], ids: Iterable[int]) -> None:
    """Replaces, in a module's globals, the functions whose id is listed (Tracer's autowrap_functions and autowrap_modules)."""
    if not patcher.visit_once(space):
        return
    wanted = set(ids)
    for name, value in list(space.items()):
        if id(value) in wanted and not name.startswith("_") and callable(value):
            patcher.patch(space, name, wrapped_function(value))


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Marks a function of the calling module, which tracing then records as one call and does not look into. Said at the top level of
    a module, by name (`fx.wrap("len")`, for built-in and imported functions, too) or as a decorator.

    Example:
        >>> import flambeau.fx
        >>> def clipped(x):
        ...     return x if float(x.max()) < 1 else x.clamp(max=1)
        >>> same = flambeau.fx.wrap("clipped")
        >>> def twice(x):
        ...     return 2 * clipped(x)
        >>> [node.name for node in flambeau.fx.symbolic_trace(twice).graph.nodes]
        ['x', 'clipped', 'mul', 'output']

    Raises:
        TypeError: `fn_or_name` is neither a function nor a name.
        NotImplementedError: it is not called at the top level of a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise TypeError(f"fx.wrap: fn_or_name is a {type(fn_or_name).__name__}; expected a function, or the name of one")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(
            f"fx.wrap({fn_or_name!r}) must be called at the top level of a module, whose names it is about; "
            f"it was called in {frame.f_code.co_name}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    wrapped_names[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name
