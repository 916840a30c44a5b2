"""Says in which module an error happened.

Nothing is kept while a model runs. When an exception leaves `Module.__call__`, the innermost module
adds one note to it, and every enclosing module, on the way out, writes its own child's name before
the path: `in module decoder.layers.3.fc2 (Linear(in_features=512, out_features=2048, bias=True))`.
"""

from __future__ import annotations

import sys
from typing import Any

_ATTR = (
    "_flambeau_module"  # on the exception: [last module passed, path so far, innermost repr, args]
)
_MAX_REPR_CHARS = 300


def kind_of(value: Any) -> str:
    """A value's type as an error names it."""
    module = type(value).__module__
    name = type(value).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def _describe(module: Any) -> str:
    text = repr(module)
    if "\n" in text or len(text) > _MAX_REPR_CHARS:
        text = type(module).__name__
    return text


def _write(error: BaseException, note: str, old_note: str | None, args: tuple[Any, ...]) -> None:
    notes = getattr(error, "__notes__", None)
    if old_note is not None and isinstance(notes, list) and old_note in notes:
        notes[notes.index(old_note)] = note
    elif sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.__notes__ = [*(notes or []), note]  # type: ignore[attr-defined]
    if sys.version_info < (3, 11) and args and isinstance(args[0], str):
        # Before 3.11 a traceback does not print notes, so the text goes into the message as well.
        if type(error) is not KeyError:
            error.args = (f"{args[0]}\n{note}", *args[1:])


def annotate(module: Any, error: BaseException) -> None:
    """Writes or lengthens the module path in `error`'s note; never raises."""
    try:
        seen = getattr(error, _ATTR, None)
        if seen is None:
            path, what, args, old = "", _describe(module), error.args, None
        else:
            last, path, what, args = seen
            old = _note(path, what)
            for name, child in module.named_modules(remove_duplicate=False):
                if child is last and name:
                    path = f"{name}.{path}" if path else name
                    break
        setattr(error, _ATTR, (module, path, what, args))
        _write(error, _note(path, what), old, args)
    except Exception:
        return


def _note(path: str, what: str) -> str:
    return f"in module {path} ({what})" if path else f"in module {what}"
