"""Parses `softmax(Tensor x, dim dim, *, dtype? dtype=None) -> Tensor y`."""

from __future__ import annotations

import dataclasses
import re

from .types import ArgType, arg_type


@dataclasses.dataclass(frozen=True)
class Arg:
    name: str
    type: ArgType
    default: str | None  # as written in the table; None: required
    keyword_only: bool

    @property
    def is_tensor(self) -> bool:
        return self.type.spelling in ("Tensor", "Tensor?", "Operand")

    @property
    def cpp_default(self) -> str | None:
        if self.default is None:
            return None
        t = self.type.spelling
        if self.default == "None":
            return "nullptr" if t == "Generator?" else "Tensor()" if t == "Tensor?" else "std::nullopt"
        if t in ("int[]", "dim[]", "int[]?", "dim[]?") or t.startswith("int["):
            values = self.default.strip("[]()")
            if values and "," not in values and t.startswith("int[") and t[4].isdigit():
                values = ", ".join([values] * int(t[4]))
            if t[4:-1].isdigit() and values and "," not in values:  # int[2] x=1: every one
                values = ", ".join([values] * int(t[4:-1]))
            # A static array: the default must outlive the call.
            return f"int_list<{values}>()" if values else "IntList()"
        if t.startswith("str"):
            return '"' + self.default.strip("'\"") + '"'
        if t.startswith("bool"):
            return self.default.lower()
        if t.startswith("dtype"):
            return f"DType::{self.default.capitalize()}"
        return {"True": "true", "False": "false", "inf": "INFINITY", "-inf": "-INFINITY"}.get(self.default, self.default)


@dataclasses.dataclass(frozen=True)
class Signature:
    name: str
    args: tuple[Arg, ...]
    outs: tuple[tuple[str, str], ...]  # (type, name)

    @property
    def is_list(self) -> bool:
        return len(self.outs) == 1 and self.outs[0][0] == "Tensor[]"

    @property
    def cpp_result(self) -> str:
        if not self.outs:
            return "void"
        if self.is_list:
            return "std::vector<Tensor>"
        if len(self.outs) == 1:
            return "Tensor"
        return "std::tuple<" + ", ".join("Tensor" for _ in self.outs) + ">"

    def arg(self, name: str) -> Arg | None:
        return next((a for a in self.args if a.name == name), None)


def _split(text: str) -> list[str]:
    """Splits at commas outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def parse(text: str) -> Signature:
    """Raises ValueError saying what is wrong."""
    whole = re.fullmatch(r"\s*(\w+)\((.*)\)\s*->\s*(.+?)\s*", text, re.S)
    if not whole:
        raise ValueError(f"'{text}' is no signature; expected name(type arg, ...) -> Tensor y")
    name, inside, result = whole.groups()
    args, keyword_only = [], False
    for part in _split(inside):
        if part == "*":
            keyword_only = True
            continue
        m = re.fullmatch(r"(\S+)\s+(\w+)\s*(?:=\s*(.+))?", part)
        if not m:
            raise ValueError(f"'{part}' is no argument; expected `type name` or `type name=default`")
        args.append(Arg(m[2], arg_type(m[1]), m[3].strip() if m[3] else None, keyword_only))
    outs = []
    if result != "()":
        for part in _split(result.strip("()")):
            m = re.fullmatch(r"(Tensor(?:\[\])?)\s+(\w+)", part)
            if not m:
                raise ValueError(f"'{part}' is no output; expected `Tensor name`")
            outs.append((m[1], m[2]))
    return Signature(name, tuple(args), tuple(outs))
