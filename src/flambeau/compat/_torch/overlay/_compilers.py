"""Settings of PyTorch's compilers (`torch._dynamo.config`, `torch._inductor.config`): kept for who asks, with no effect, since these
compilers are not here."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

_ABSENT = object()


def patch_of(module: str) -> Callable[..., Any]:
    """`config.patch` of a module of settings: a region, also a decorator, with other values."""

    @contextlib.contextmanager
    def patch(arg1: Any = None, arg2: Any = None, **changes: Any) -> Iterator[None]:
        """Takes a name and its value, a dict of them, or keywords."""
        if isinstance(arg1, dict):
            changes = {**arg1, **changes}
        elif arg1 is not None:
            changes = {arg1: arg2, **changes}
        held = vars(sys.modules[module])
        before = {name: held.get(name, _ABSENT) for name in changes}
        held.update(changes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is _ABSENT:
                    held.pop(name, None)
                else:
                    held[name] = value

    return patch
