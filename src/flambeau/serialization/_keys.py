"""Keys that a file names, looked at before they are hashed."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau.serialization._errors import FileFormatError

MAX_KEY_PARTS = 1000
MAX_ODD_KEYS = 10_000
_COLLIDING = (1 << 61) - 1  # integers from here on may have one hash
MAX_KEY_DEPTH = 20  # equal ones are compared by recursion
_KEYS = {
    str, bytes, bool, int, float, complex, range, type(None), _C.dtype, _C.device,
    types.FunctionType, types.BuiltinFunctionType,
}  # fmt: skip


def is_tensor(key: Any) -> bool:
    """Whether it is a tensor, and hashed as such: by what it is and not by its values."""
    return isinstance(key, _C.Tensor) and type(key).__hash__ is _C.Tensor.__hash__


class Keys:
    """Looks at keys of dicts and elements of sets before they are hashed.

    Tuples are hashed by recursion and each time anew, so a few bytes could make a key that takes for ever, or the stack; and numbers
    with one hash can be made up. Text and small integers are not touched by that.
    """

    def __init__(self) -> None:
        self._odd = 0

    def is_plain(self, key: Any) -> bool:
        """Whether it is hashed well and at once; the others are counted."""
        kind = type(key)
        if kind is str or kind is bytes or kind is bool or key is None or (kind is int and -_COLLIDING < key < _COLLIDING):
            return True
        self._odd += 1
        if self._odd > MAX_ODD_KEYS:
            raise FileFormatError(f"more than {MAX_ODD_KEYS} keys are neither text nor integers of 60 bits")
        return False

    def check(self, keys: list[Any], allowed: Callable[[Any], bool]) -> None:
        for key in keys:
            if self.is_plain(key):
                continue
            parts, n = [(key, 0)], 0
            while parts:
                part, depth = parts.pop()
                n += 1
                if depth > MAX_KEY_DEPTH:
                    raise FileFormatError(f"a key is nested deeper than {MAX_KEY_DEPTH} levels")
                if n > MAX_KEY_PARTS:
                    raise FileFormatError(f"a key has more than {MAX_KEY_PARTS} parts")
                if type(part) in (tuple, frozenset, _C.Size):
                    if len(part) > MAX_KEY_PARTS:
                        raise FileFormatError(f"a key has more than {MAX_KEY_PARTS} parts")
                    parts += [(inner, depth + 1) for inner in part]
                elif type(part) not in _KEYS and not isinstance(part, type) and not is_tensor(part):
                    if not allowed(part):
                        raise FileFormatError(f"a key is a {type(part).__name__}; expected text, numbers, None or tuples of these")
                    try:
                        hash(part)
                    except Exception as error:
                        text = f"a key is a {type(part).__name__}, whose hash raised {type(error).__name__}: {error}"
                        raise FileFormatError(text) from error
