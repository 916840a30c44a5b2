"""`torch.fx.node`: nodes of traced graphs, of which there are none, and functions over their arguments, which work for any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.fx import Node

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any
BaseArgumentTypes = str | int | float | bool | complex | Any


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """The same tuples (named ones, too), lists, dicts and slices, with `fn` of everything else in them."""
    if isinstance(a, tuple):
        parts = [map_aggregate(item, fn) for item in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`map_aggregate` with `fn` of nodes alone."""
    if not callable(fn):
        raise TypeError(f"map_arg: fn is a {type(fn).__name__}; expected a function")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def has_side_effect(fn: Any) -> Any:
    """A mark for a pass over traced graphs: the function itself."""
    return fn
