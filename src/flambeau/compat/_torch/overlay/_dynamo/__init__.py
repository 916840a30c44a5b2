"""`torch._dynamo`: PyTorch's compiler of bytecode, which is not here; `torch.compile` records calls instead (docs/lazy.md)."""

from __future__ import annotations

from typing import Any

from flambeau.compat._torch.overlay._dynamo import config
from flambeau.compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
)

__all__ = ["OptimizedModule", "allow_in_graph", "config", "disable", "is_compiling", "is_dynamo_supported", "list_backends", "mark_static_address", "reset"]


def reset() -> None:
    """Nothing is kept between calls that would have to be forgotten."""


reset_code_caches = reset


def is_dynamo_supported() -> bool:
    """True: `torch.compile` works wherever the library does."""
    return True


def graph_break(msg: str = "") -> None:
    """What was recorded runs whenever a value is read; nothing has to be cut by hand."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Addresses are not part of what is recorded."""


def mark_dynamic(
    t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None, max: int | None = None, specialize_on: Any = None  # noqa: A002
) -> None:
    """Every shape may change."""


def mark_static(t: Any, index: Any = None) -> None:
    """Every shape may change, and what is recorded for one stays right for it."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Every shape may change."""
