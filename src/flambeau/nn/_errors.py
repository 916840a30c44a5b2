"""Says in which module an error happened.

Nothing is kept while a model runs. When an exception leaves `Module.__call__`, the innermost module
adds one note to it, and every enclosing module, on the way out, writes its own child's name before
the path: `in module decoder.layers.3.fc2 (Linear(in_features=512, out_features=2048, bias=True)) of
Translator`.
"""

from __future__ import annotations

from typing import Any

from flambeau._notes import write_note

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


def annotate(module: Any, error: BaseException) -> None:
    """Writes or lengthens the module path in `error`'s note; never raises."""
    try:
        seen = getattr(error, _ATTR, None)
        if seen is None:
            path, what, args, old = "", _describe(module), error.args, None
        else:
            last, path, what, args = seen
            old = _note(path, what, last)
            for name, child in module.named_modules(remove_duplicate=False):
                if child is last and name:
                    path = f"{name}.{path}" if path else name
                    break
        setattr(error, _ATTR, (module, path, what, args))
        write_note(error, _note(path, what, module), old, args)
    except Exception:
        return


def _note(path: str, what: str, root: Any) -> str:
    return f"in module {path} ({what}) of {type(root).__name__}" if path else f"in module {what}"
