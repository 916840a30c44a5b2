"""The one error of files that are not what they should be."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any


class FileFormatError(ValueError, RuntimeError, UnpicklingError):
    """The file is not what it should be, or wants what no file may have; nothing was loaded from it.

    It is also what PyTorch raises for a damaged archive and for one with something that may not be loaded.
    """

    __module__ = "flambeau.serialization"  # where users import it from


class EmptyFileError(FileFormatError, EOFError):
    """The file has no bytes at all: nothing was written, or a file object stands at its end."""

    __module__ = "flambeau.serialization"


class RefusedName(FileFormatError):
    """The file names a class or function that nothing allows; who reads the file says then what to allow."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name

    def __reduce__(self) -> Any:
        return FileFormatError, (str(self),)


def short(value: Any, limit: int = 80) -> str:
    """What stands in an error for something that a file says, which may be huge."""
    if type(value) is int and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if type(value) in (str, bytes):
        return repr(value[:limit]) + ("..." if len(value) > limit else "")
    if value is None or type(value) in (int, float, bool, complex):
        return repr(value)
    if type(value) in (list, tuple) and len(value) <= 16 and all(type(part) in (int, float, bool, str, type(None)) for part in value):
        inner = ", ".join(short(part, 20) for part in value)
        return f"[{inner}]" if type(value) is list else f"({inner})"
    return f"a {type(value).__name__}"
