"""How processes of a launcher report errors."""

from __future__ import annotations

from typing import Any

__all__ = ["record"]


def record(fn: Any, error_handler: Any = None) -> Any:
    """The function itself: no launcher waits for a file with its error, which is raised as it is.

    Raises:
        NotImplementedError: an `error_handler` is given.
    """
    if error_handler is not None:
        raise NotImplementedError("elastic.record: error_handler is given, but there is no launcher here that would read what it writes")
    return fn
