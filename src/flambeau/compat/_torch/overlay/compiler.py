"""`torch.compiler`: what marks functions for PyTorch's compiler. Python runs wherever something is recorded, so that marks change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.compiler import compile, is_compiling

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "reset", "set_stance", "substitute_in_graph"]  # fmt: skip


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself: ops in it are recorded as everywhere, with the results of eager mode."""
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself, which is called each time."""
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Any:
    """A decorator that returns its function; the original goes on to be called."""
    return lambda fn: fn


def is_dynamo_compiling() -> bool:
    """False: Dynamo is not here."""
    return False


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def reset() -> None:
    """Nothing has to be forgotten."""


def cudagraph_mark_step_begin() -> None:
    """There are no CUDA graphs."""


@contextlib.contextmanager
def set_stance(stance: str = "default", **kwargs: Any) -> Iterator[None]:
    """A region without effect: calls are recorded as elsewhere."""
    yield


def nested_compile_region(fn: Any = None, **kwargs: Any) -> Any:
    """The function itself."""
    return fn if fn is not None else lambda f: f
