"""Attributes at a path of a module: where a graph's modules, parameters and buffers are, and how they come to another root."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["assign", "copy_attribute", "fetch", "holder_of"]


def fetch(root: Any, path: str) -> Any:
    """`root.a.b` of "a.b".

    Raises:
        AttributeError: there is no such attribute; the text says how far the path goes.
    """
    at = root
    parts = path.split(".")
    for i, part in enumerate(parts):
        if not hasattr(at, part):
            where = ".".join(parts[:i]) or type(root).__name__
            raise AttributeError(f"fx: {path!r} is not in {type(root).__name__}: {where} has no attribute {part!r}")
        at = getattr(at, part)
    return at


def holder_of(root: Module, path: str) -> tuple[Module, str]:
    """(the module that has the attribute, its name there); modules on the way are made."""
    *way, last = path.split(".")
    at: Any = root
    for part in way:
        below = getattr(at, part, None)
        if below is None:
            below = Module()
            setattr(at, part, below)
        at = below
    return at, last


def assign(root: Module, path: str, value: Any) -> None:
    """Puts a value at a path; a tensor that is no parameter becomes a buffer."""
    holder, name = holder_of(root, path)
    if isinstance(value, Tensor) and not isinstance(value, Parameter) and isinstance(holder, Module):
        holder.register_buffer(name, value)
    else:
        setattr(holder, name, value)


def copy_attribute(source: Module, target: Module, path: str) -> None:
    """Puts what `source` has at a path at the same path of `target`: the thing itself, not a copy."""
    holder, name = holder_of(target, path)
    value = fetch(source, path)
    if getattr(holder, name, None) is value:
        return
    if isinstance(value, Tensor) and not isinstance(value, Parameter) and isinstance(holder, Module):
        parent = fetch(source, path.rpartition(".")[0]) if "." in path else source
        persistent = name not in getattr(parent, "_non_persistent_buffers_set", ())
        holder.register_buffer(name, value, persistent)
    else:
        setattr(holder, name, value)
