"""Names of nodes and of what generated code refers to: each is given once, and none is a keyword or a built-in name of Python's.

    "foo", "foo", "foo_1"  ->  foo, foo_1, foo_2           the number behind a name counts on
    "layer1.0.conv"        ->  layer1_0_conv               what no name may contain becomes one underscore
    "input", "lambda"      ->  input_1, lambda_1           names that Python or generated code has already
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any

import flambeau

__all__ = ["ALWAYS_THERE", "Namespace", "snake_case"]

# What generated code may say without importing it: `inf` and `nan` are how Python writes these numbers.
ALWAYS_THERE: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "device": flambeau.device}
_TAKEN = frozenset((*dir(builtins), *keyword.kwlist, *ALWAYS_THERE, "torch", "flambeau", "fx_pytree", "pytree"))


def snake_case(name: str) -> str:
    """`my_func` of `MyFunc`.

    >>> snake_case("getAttr"), snake_case("HTTPServer")
    ('get_attr', 'httpserver')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Namespace:
    """A set of names that have been given, and to what."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._of: dict[int, tuple[str, Any]] = {}  # id -> (name, what has it, which so stays alive)
        self._last: dict[str, int] = {}  # a name without its number -> the highest number given

    def name_of(self, owner: Any) -> str | None:
        """The name that was given to an object, if one was."""
        found = self._of.get(id(owner))
        return found[0] if found else None

    def create_name(self, candidate: str, owner: Any) -> str:
        """A name like `candidate` that nobody has; the same one where `owner`, which may be None, has one already."""
        if owner is not None and (known := self.name_of(owner)) is not None:
            return known
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, None)
        while candidate in self._used or self._is_taken(candidate, owner):
            number = self._last.get(base, 0) + 1 if number is None else number + 1
            candidate = f"{base}_{number}"
        self._last[base] = max(self._last.get(base, 0), number or 0)
        self._keep(candidate, owner)
        return candidate

    def associate_name_with_obj(self, name: str, owner: Any) -> None:
        """Gives a name that nobody has to an object."""
        self._keep(name, owner)

    def _keep(self, name: str, owner: Any) -> None:
        self._used.add(name)
        if owner is not None:
            self._of[id(owner)] = (name, owner)

    def _rename_object(self, owner: Any, name: str) -> None:
        self._keep(name, owner)

    def forget(self, owner: Any) -> None:
        """The object has gone; its name stays taken, so that what was printed before is not about another one."""
        self._of.pop(id(owner), None)

    @staticmethod
    def _is_taken(name: str, owner: Any) -> bool:
        if name not in _TAKEN:
            return False
        return not (hasattr(builtins, name) and getattr(builtins, name) is owner) and ALWAYS_THERE.get(name, Namespace) is not owner
