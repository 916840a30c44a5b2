"""`functionalize`, which programs call before they trace a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself, as far as a caller can tell: what is written in place is written, to arguments, too.

    In PyTorch the ops inside become ones that write nothing, for tracers to see. Recordings of this library note writes as they are.

    Raises:
        RuntimeError: `remove` is neither 'mutations' nor 'mutations_and_views'.

    Example:
        >>> import flambeau as fl
        >>> fl.func.functionalize(lambda x: x.clone().add_(1))(fl.zeros(2))
        tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove = {remove!r}; expected 'mutations' or 'mutations_and_views'")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
