"""Notes that nodes get while they are made: `with annotate({...})` and the notes of a node that is done again."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "annotate", "annotate_fn", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta", "set_current_meta",
    "set_stack_trace",
]  # fmt: skip


class _Notes(threading.local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.preserve = False


_notes = _Notes()


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A region in which an `Interpreter` or `Transformer` gives what it makes the notes of the node that it runs."""
    before = _notes.preserve, _notes.meta
    _notes.preserve, _notes.meta = enable, dict(_notes.meta)
    try:
        yield
    finally:
        _notes.preserve, _notes.meta = before


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A region whose nodes get these notes, in `node.meta["custom"]`.

    >>> from flambeau.fx import symbolic_trace
    >>> def f(x):
    ...     with annotate({"stage": 1}):
    ...         return x + 1
    >>> [node.meta.get("custom") for node in symbolic_trace(f).graph.nodes]
    [None, {'stage': 1}, None]
    """
    before = _notes.meta
    _notes.meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _notes.meta = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function's calls are regions of `annotate`.

    >>> from flambeau.fx import symbolic_trace
    >>> @annotate_fn({"stage": 1})
    ... def f(x):
    ...     return x + 1
    >>> [node.meta.get("custom") for node in symbolic_trace(f).graph.nodes]
    [None, {'stage': 1}, None]
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """Says where the nodes to come were written."""
    if _notes.preserve and stack:
        _notes.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Where the program is, or what `set_stack_trace` said."""
    if _notes.preserve and "stack_trace" in _notes.meta:
        return [_notes.meta["stack_trace"]]
    return traceback.format_list(traceback.extract_stack()[:-1])


def has_preserved_node_meta() -> bool:
    """Whether notes are kept (`preserve_node_meta`)."""
    return _notes.preserve


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """A region whose nodes get the notes of `node`, if notes are kept."""
    before = _notes.meta
    if _notes.preserve and node.meta:
        _notes.meta = copy.copy(node.meta)
    try:
        yield
    finally:
        _notes.meta = before


def get_current_meta() -> dict[str, Any]:
    """The notes that nodes get now."""
    return _notes.meta
