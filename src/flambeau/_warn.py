"""Warnings that name the user's line, however many of the library's own frames lie between."""

from __future__ import annotations

import os
import sys
import warnings

always = False  # set_warn_always
_given: set[str] = set()
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """The same, but only the first time that the program comes to it, wherever that is; `set_warn_always(True)` says it every time."""
    if always or message not in _given:
        _given.add(message)
        warn(message, category)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line outside of flambeau."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    if not always:
        warnings.warn(message, category, stacklevel=level)
        return
    with warnings.catch_warnings():
        if not any(action in ("error", "ignore") and issubclass(category, kind) for action, _, kind, _, _ in warnings.filters):
            warnings.simplefilter("always", category)
        warnings.warn(message, category, stacklevel=level)
