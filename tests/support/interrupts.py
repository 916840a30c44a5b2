"""Ctrl-C wherever it can come in the library's code, without waiting for luck."""

from __future__ import annotations

import itertools
import os
import sys

import flambeau as fl

_HERE = os.path.dirname(fl.__file__)


def interrupted_everywhere(run):
    """Runs `run` again and again, with a KeyboardInterrupt at the first, second, third place of the library's code where the interpreter
    looks for signals, and so on, until `run` comes to its end without one. Yields where it came, as text, when `run` has been left.

    These places are the beginnings of functions in Python and what follows a call of a function in C. (At jumps back there are others, which
    are left out.)
    """
    for after in itertools.count():
        where, left = None, after

        def look(frame, event, what):
            nonlocal where, left
            if (
                event not in ("call", "c_return")
                or where is not None
                or not frame.f_code.co_filename.startswith(_HERE)
            ):
                return
            if left == 0:
                behind = f", after {what.__name__}" if event == "c_return" else ""
                where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}, in {frame.f_code.co_name}{behind}"
                raise KeyboardInterrupt
            left -= 1

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(before)
        if where is None:
            return
        yield where
