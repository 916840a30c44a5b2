"""Generated code as a function: compiled, and known to `linecache`, so that an error shows the generated line."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["forward_of"]

_numbers = itertools.count()


def forward_of(src: str, names: dict[str, Any], owner: Any = None) -> Callable[..., Any]:
    """The function `forward` that `src` defines; its text goes with `owner`, a class, or stays."""
    key = f"<eval_with_key>.{next(_numbers)}"
    space = {**names, "__name__": key}
    linecache.cache[key] = (len(src), None, src.splitlines(keepends=True), key)
    exec(compile(src, key, "exec", dont_inherit=True), space)
    if owner is not None:
        weakref.finalize(owner, linecache.cache.pop, key, None)
    made: Callable[..., Any] = space["forward"]
    return made
