"""What the op table says of an op, and calls bound to its signature."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops

# PyTorch calls the first argument `input` (or `self`) and the second of a binary op `other`.
_ALSO = {"b": "other"}


class Arg(NamedTuple):
    name: str
    type: str  # as the table spells it: Tensor?, dim[], int[2]
    required: bool
    keyword_only: bool
    also: str | None
    default: int | None = None  # of an axis


class Overload(NamedTuple):
    """One entry."""

    name: str
    args: tuple[Arg, ...]
    body: str  # each, view, kernel or composite
    linear: Mapping[str, frozenset[str]]  # argument -> what its gradient reads
    draws: bool
    batch: str

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was given, by the table's names; None where the call does not fit."""
        positional = [a for a in self.args if not a.keyword_only]
        if len(args) > len(positional):
            last = positional[-1] if positional else None
            if last is None or last.type not in ("int[]", "dim[]") or not all(isinstance(v, int) for v in args[len(positional) - 1 :]):
                return None
            args = [*args[: len(positional) - 1], tuple(args[len(positional) - 1 :])]
        found = {a.name: value for a, value in zip(positional, args, strict=False)}
        if kwargs:
            names = {name: a.name for a in self.args for name in (a.name, a.also) if name}
            for key, value in kwargs.items():
                name = names.get(key)
                if name is None or name in found:
                    return None
                found[name] = value
        for a in self.args:
            if a.name not in found:
                if a.required:
                    return None
            elif not _fits(a.type, found[a.name]):
                return None
        return found


def _fits(kind: str, value: Any) -> bool:
    if kind.endswith("?") and not kind.endswith("[]?") and value is None:
        return True
    if kind.endswith("[]?"):
        if value is None:
            return True
        kind = kind[:-1]
    bare = kind.rstrip("?")
    if bare == "Tensor":
        return isinstance(value, Tensor)
    if bare == "Operand":
        return isinstance(value, (Tensor, int, float, complex))
    if bare in ("Tensor[]", "Tensor?[]"):
        return isinstance(value, (tuple, list))
    if bare in ("int", "dim"):
        return hasattr(value, "__index__") and not isinstance(value, (bool, Tensor))
    if bare.endswith("]"):
        return (hasattr(value, "__index__") and not isinstance(value, (bool, Tensor))) or isinstance(value, (tuple, list))
    if bare == "str":
        return isinstance(value, str)
    if bare == "bool":
        return isinstance(value, bool)
    if bare in ("float", "number"):
        return isinstance(value, (int, float, complex))
    return not isinstance(value, Tensor)


def _arg(text: str, first: bool, keyword_only: bool) -> Arg:
    kind, _, rest = text.strip().partition(" ")
    name, _, default = rest.partition("=")
    also = _ALSO.get(name)
    if first and kind in ("Tensor", "Operand"):
        also = "input"
    elif first and kind.startswith("Tensor"):
        also = "tensors"
    elif name.endswith("_"):
        also = name[:-1]
    return Arg(name, kind, not default, keyword_only, also, int(default) if kind == "dim" and default else None)


def _overload(name: str, signature: str, body: str, linear: str, draws: bool, batch: str) -> Overload:
    text = signature[signature.index("(") + 1 :]
    text = text[: re.search(r"\) *->|\)$", text).start()]  # type: ignore[union-attr]
    args: list[Arg] = []
    keyword_only = False
    for part in re.split(r",(?![^\[\]]*\])", text):
        if part.strip() == "*":
            keyword_only = True
        elif part.strip():
            args.append(_arg(part, not args, keyword_only))
    read = (part.split(":") for part in linear.split(";") if part)
    return Overload(name, tuple(args), body, {n.strip(): frozenset(used.split()) for n, used in read}, draws, batch)


@functools.cache
def _table() -> dict[str, tuple[Overload, ...]]:
    """By every name that a call may have; forms in place have their own."""
    found: dict[str, list[Overload]] = {}
    for name, signature, body, aliases, linear, batch, draws, inplace in _C.op_traits():
        entry = _overload(name, signature, body, linear, draws, batch)
        for shown in (name, *aliases.split()):
            found.setdefault(shown, []).append(entry)
            if inplace:
                found.setdefault(shown + "_", []).append(entry)
    return {name: tuple(entries) for name, entries in found.items()}


def overloads(name: str) -> tuple[Overload, ...]:
    """The entries of a name; none for what is no op of the table."""
    return _table().get(name, ())


def bound(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Overload, dict[str, Any]] | None:
    """The first entry that a call fits, and its arguments by name."""
    for entry in overloads(name):
        found = entry.bind(args, kwargs)
        if found is not None:
            return entry, found
    return None


@functools.cache
def call_of(name: str) -> Any:
    """The function of a name: an op, or a method of Tensor."""
    if hasattr(ops, name):
        return getattr(ops, name)
    kind, _, attribute = name.partition(":")
    return getattr(getattr(Tensor, attribute), f"__{kind}__") if attribute else getattr(Tensor, name)


# Operators that hand their method over, and not the op that it calls.
_OPERATORS = {
    "__eq__": "eq", "__invert__": "bitwise_not", "__floordiv__": "floor_divide", "__rdiv__": "__rtruediv__", "__and__": "bitwise_and",
    "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_", "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}  # fmt: skip


@functools.cache
def name_of(func: Any) -> str:
    """What a function is called: `add`, `get:shape` for an attribute that is read, `set:data`, `delete:grad`."""
    name: str = getattr(func, "__name__", repr(func))
    if name in _OPERATORS:
        return _OPERATORS[name]
    if name in ("__get__", "__set__", "__delete__") and hasattr(func, "__self__"):
        return f"{name.strip('_')}:{func.__self__.__name__}"
    return name


def written_first(kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of an op in place, all by name, with the tensor that it writes by position."""
    first = next((name for name in ("input", "x", "a", "self") if name in kwargs), next(iter(kwargs)))
    return (kwargs[first],), {name: value for name, value in kwargs.items() if name != first}
