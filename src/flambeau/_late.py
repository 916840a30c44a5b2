"""Methods whose functions are in parts of the package that are imported when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor


def late_method(name: str, find: Callable[[], Any], doc: str) -> Callable[..., Any]:
    """A method that is the function which `find` imports. That is done once: an import statement in the method would cost every call.

    >>> late_method("ones_like", lambda: __import__("flambeau").ones_like, "Ones.").__name__
    'ones_like'
    """
    found: Callable[..., Any] | None = None

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if found is None:
            found = find()
        return found(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method
