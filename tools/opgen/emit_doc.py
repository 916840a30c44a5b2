"""What the table says of an op, as text: for `help()`, for stubs and for the reference."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from .signature import Arg
from .table import Op

# PyTorch calls the first argument `input` (or `self`) and the second of a binary op `other`.
_OTHER = {"b": "other"}


def also(op: Op, index: int) -> str | None:
    """The other name that a call may use for an argument: PyTorch's."""
    a = op.sig.args[index]
    keywords = op.get("keywords", {})
    if a.name in keywords:
        return str(keywords[a.name])
    if index == 0 and (a.type.spelling in ("Tensor", "Operand") or a.type.many) and "input" not in keywords.values():
        return "tensors" if a.type.many else "input"
    return a.name[:-1] if a.name.endswith("_") else _OTHER.get(a.name)


def shown_name(op: Op, index: int) -> str:
    """What PyTorch calls the argument, where its name is one that Python allows."""
    a, name = op.sig.args[index], also(op, index)
    return a.name if name is None or keyword.iskeyword(name) or any(b.name == name for b in op.sig.args) else name


def sentence(op: Op, gradients: bool = True) -> str:
    """What the op does, in the names that are shown, and of what there are gradients."""
    text = " ".join(str(op.get("doc", "")).split())
    shown = {a.name: shown_name(op, i) for i, a in enumerate(op.sig.args)}
    other = [f"{name} is `{new}`" for name, new in shown.items() if new != name and re.search(rf"\b{name}\b", text)]
    if other:
        text += f" ({', '.join(other)}.)"
    smooth = [f"`{shown.get(k, k)}`" for k in op.formulas]
    return text + (f" Gradients: {', '.join(smooth)}." if smooth and gradients else "")


def _default(a: Arg) -> str:
    text = str(a.default)
    return repr(text.strip("'\"")) if a.type.spelling.startswith("str") and text != "None" else text


def signature(op: Op, name: str, method: bool = False) -> str:
    """The call as a reader writes it: `softmax(input, dim, *, dtype=None) -> Tensor`."""
    parts, star = [], False
    for i, a in enumerate(op.sig.args):
        if a.keyword_only and not star:
            parts.append("*")
            star = True
        if not (method and i == 0):
            parts.append(shown_name(op, i) + ("" if a.default is None else f"={_default(a)}"))
    outs = op.sig.outs
    result = "tuple[Tensor, ...]" if op.sig.is_list else ", ".join(n for _, n in outs) if len(outs) > 1 else "Tensor" if outs else "None"
    return f"{name}({', '.join(parts)}) -> {f'({result})' if len(outs) > 1 else result}"


def documentation(name: str, ops: Sequence[Op], method: bool = False) -> str:
    """The docstring of a function or method: each way to call it, and what that does."""
    return "\n\n".join("\n\n".join(filter(None, (signature(op, name, method), sentence(op)))) for op in ops)
