"""What notebooks show of tensors, modules and profiles: small pieces of HTML, without scripts.

All text of the user's (names, extra_repr, elements) is escaped. A large tensor shows what its `repr` shows, which reads no more
elements than that; a large module shows its first rows.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flambeau._units import bytes_text

if TYPE_CHECKING:
    from flambeau._C import Tensor
    from flambeau.nn.module import Module

MAX_MODULES = 400
_CELL = "text-align:right;padding:0 .6em"


def tensor_html(x: Tensor) -> str:
    """Shape, type, device, bytes and whether a gradient is wanted, then the elements as `repr` shows them."""
    facts = [f"shape {list(x.shape)}", str(x.dtype), str(x.device), bytes_text(x.numel() * x.element_size())]
    if x.requires_grad:
        facts.append("requires grad" if x.grad_fn is None else f"made by {x.grad_fn.name()}")
    head = f"<b>{html.escape(type(x).__name__)}</b> {html.escape(', '.join(facts))}"
    return f"<div>{head}<pre style='margin:0'>{html.escape(repr(x))}</pre></div>"


def module_html(module: Module) -> str:
    """A tree that can be folded: each module's kind, options, parameters and their bytes, those of its children included."""
    left = [MAX_MODULES]
    tree = "".join(_tree("", module, left, opened=2))
    more = f"<div>... and {-left[0]} more modules</div>" if left[0] < 0 else ""
    return f"<div>{tree}{more}</div>"


def _tree(name: str, module: Module, left: list[int], opened: int) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0:
        left[0] -= sum(1 for _ in module.modules()) - 1
        return
    parameters = list(module.parameters())
    unknown = any(_has_no_shape(p) for p in parameters)
    known = [p for p in parameters if not _has_no_shape(p)]
    count, size = sum(p.numel() for p in known), sum(p.numel() * p.element_size() for p in known)
    own = html.escape(" ".join(module.extra_repr().split()))
    amount = f"{count:,} parameters, {bytes_text(size)}" if count else ""
    amount += (", " if amount else "") + "some without a shape yet" if unknown else ""
    frozen = ", frozen" if count and not any(p.requires_grad for p in known) else ""
    label = f"{f'<code>{html.escape(name)}</code> ' if name else ''}<b>{html.escape(type(module).__name__)}</b>({own})"
    line = f"{label} <span style='opacity:.65'>{amount}{frozen}</span>"
    children = [(key, child) for key, child in module.named_children()]
    if not children:
        yield f"<div style='margin-left:1.2em'>{line}</div>"
        return
    yield f"<details style='margin-left:1em'{' open' if opened > 0 else ''}><summary>{line}</summary>"
    for key, child in children:
        yield from _tree(key, child, left, opened - 1)
    yield "</details>"


def _has_no_shape(p: Any) -> bool:
    from flambeau.nn.parameter import UninitializedParameter

    return isinstance(p, UninitializedParameter)


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]], title: str, foot: Sequence[str]) -> str:
    """A table whose first column is text and whose others are figures."""
    styles = ["text-align:left", *[_CELL] * (len(head) - 1)]
    body = "".join(
        "<tr>" + "".join(f"<td style='{style}'>{html.escape(cell)}</td>" for style, cell in zip(styles, row)) + "</tr>" for row in rows
    )
    columns = "".join(f"<th style='{style}'>{html.escape(name)}</th>" for style, name in zip(styles, head))
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in foot)
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    return f"<div><table>{caption}<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>{lines}</div>"
