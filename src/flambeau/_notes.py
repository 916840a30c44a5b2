"""Notes of errors, for Pythons that print them and for those that do not."""

from __future__ import annotations

import sys
from typing import Any


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an error."""
    write_note(error, note, None, error.args)


def write_note(error: BaseException, note: str, old_note: str | None, args: tuple[Any, ...]) -> None:
    """Adds a note to an error whose own arguments are `args`, or puts it in the place of one that it has."""
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
