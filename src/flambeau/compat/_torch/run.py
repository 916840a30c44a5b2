"""`flambeau run`: a program or module that was written for PyTorch, unmodified."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence


def check(target: str, module: bool) -> None:
    """Refuses what can not be run.

    Raises:
        FileNotFoundError: there is no such script or module.
    """
    if module:
        try:
            found = importlib.util.find_spec(target.partition(".")[0]) is not None or os.path.exists(target.partition(".")[0] + ".py")
        except (ImportError, ValueError):
            found = False
        if not found:
            raise FileNotFoundError(f"flambeau run: -m {target}; there is no module of this name")
    elif not os.path.exists(target):
        raise FileNotFoundError(f"flambeau run: {target} does not exist; expected a Python file, a folder with __main__.py, or -m MODULE")


def run(target: str, arguments: Sequence[str], module: bool = False) -> int:
    """Runs a script (or, with `module`, a module) as Python would, with `torch` meaning this library.

    Returns:
        0; exceptions and `SystemExit` of the program go on to the caller.
    """
    from flambeau.compat._torch import install

    install()
    sys.argv = [target, *arguments]
    if module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return 0
    if not os.path.isdir(target):  # run_path adds a folder itself
        sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
    runpy.run_path(target, run_name="__main__")
    return 0
