"""`torch._inductor.decomposition`: how PyTorch's compiler takes operators apart. There is no such compiler here, so nobody asks what is registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

decompositions: dict[Any, Any] = {}


def register_decomposition(ops: Any) -> Callable[[Any], Any]:
    """Decorator that notes a function beside the operators it stands for, and leaves it as it is."""

    def note(function: Any) -> Any:
        decompositions.update(dict.fromkeys(ops if isinstance(ops, list | tuple) else (ops,), function))
        return function

    return note
