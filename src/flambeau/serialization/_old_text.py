"""How the texts of Python 2 in a pickle are read: bytes there, of an encoding that the file does not name.

`torch.load` takes what Python's unpickler does: `encoding` (UTF-8 where nothing is said, "bytes" leaves bytes), `errors`, `fix_imports`.
What is no UTF-8 stays bytes where no encoding is named, since arrays of NumPy's are written as such texts.
"""

from __future__ import annotations

import codecs
from typing import Any

from flambeau.serialization._errors import FileFormatError, short


class OldText:
    """Makes values of such texts, and bytes of these values again."""

    def __init__(self, encoding: str | None = None, errors: str = "strict") -> None:
        if encoding is not None:
            encoding = _known("encoding", encoding)
        self._encoding, self._errors = encoding, errors

    def __call__(self, raw: bytes) -> Any:
        if self._encoding == "bytes":
            return raw
        try:
            return raw.decode(self._encoding or "utf-8", self._errors)
        except (UnicodeError, LookupError) as error:
            if self._encoding is None:
                return raw
            raise FileFormatError(
                f"a text of Python 2 is no {self._encoding}: {short(raw)}: {error} (load it with encoding='latin1', or encoding='bytes')"
            ) from None

    def bytes_of(self, value: bytes | str) -> bytes:
        """The bytes of an array, which are written as a text."""
        if type(value) is bytes:
            return value
        encoding = "latin1" if self._encoding == "bytes" else self._encoding or "utf-8"
        try:
            return value.encode(encoding)  # type: ignore[union-attr]
        except (UnicodeError, LookupError):
            raise FileFormatError(f"the bytes of an array are a text beyond {encoding}: {short(value)}") from None


def _known(name: str, encoding: Any) -> str:
    if type(encoding) is not str:
        raise TypeError(f"load: {name} = {encoding!r}; expected the name of an encoding, or 'bytes'")
    if encoding != "bytes":
        codecs.lookup(encoding)  # a LookupError, as Python's
    return encoding


def old_text_of(arguments: dict[str, Any]) -> OldText:
    """Of the arguments that `load` hands to what unpickles."""
    for name, value in arguments.items():
        if name not in ("encoding", "errors", "fix_imports", "buffers"):
            raise TypeError(
                f"load: unexpected argument {name} = {value!r}; expected encoding, errors, fix_imports or buffers beside those of its own"
            )
    if not arguments.get("fix_imports", True):
        raise ValueError("load: fix_imports = False; expected True: names of Python 2 are read under those of Python 3")
    if arguments.get("buffers") is not None:
        raise ValueError("load: buffers are given; expected None: what lies outside of a file is not read")
    errors = arguments.get("errors", "strict")
    if type(errors) is not str:
        raise TypeError(f"load: errors = {errors!r}; expected the name of a way to treat errors, such as 'strict' or 'replace'")
    codecs.lookup_error(errors)
    return OldText(arguments.get("encoding"), errors)
