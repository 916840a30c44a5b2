"""The import lines that a pickle of generated code begins with: one for each name that the code uses."""

from __future__ import annotations

import types
from typing import Any

from flambeau.fx._targets import importable, is_builtin

_WRITTEN = {"inf": "from math import inf", "nan": "from math import nan", "NoneType": "NoneType = type(None)"}


def import_lines(names: dict[str, Any]) -> str:
    """Lines that give the names their meaning.

    Raises:
        ValueError: one can not be imported from anywhere (a function inside of a function, a lambda).
    """
    return "".join(f"{_line(name, value)}\n" for name, value in names.items() if not is_builtin(name))


def _line(name: str, value: Any) -> str:
    if name in _WRITTEN:
        return _WRITTEN[name]
    if isinstance(value, types.ModuleType):
        module = value.__name__
        return f"import {module}" if module == name else f"import {module} as {name}"
    place = importable(value)
    if place is None:
        raise ValueError(
            f"GraphModule: its code uses {name}, which is {value!r} and can not be imported, so that no pickle can name it; "
            "define it at the top level of a module"
        )
    module, path = place
    first, _, rest = path.partition(".")
    if not rest:
        return f"from {module} import {path} as {name}"
    return f"from {module} import {first} as _holder\n{name} = _holder.{rest}"
