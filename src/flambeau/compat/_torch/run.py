"""`flambeau run`: a program or module that was written for PyTorch, unmodified."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Sequence
from typing import Any

from flambeau.compat._torch.facade import hint
from flambeau.compat._torch.finder import ROOTS, known_modules, sources_of


def check(target: str, module: bool) -> None:
    """Refuses what can not be run.

    Raises:
        FileNotFoundError: there is no such script or module.
    """
    if module and target.partition(".")[0] in ROOTS:
        if not sources_of(target):
            owner, _, name = target.rpartition(".")
            near = hint(owner, name, known_modules(owner)) if owner and sources_of(owner) else ""
            raise FileNotFoundError(f"flambeau run: -m {target}; this module is not in flambeau{near}")
    elif module:
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
    _tell_programs()
    sys.argv = [target, *arguments]
    sys.excepthook = _OfTheProgram(sys.excepthook)
    if module:
        sys.path.insert(0, os.getcwd())
        if target.partition(".")[0] in ROOTS:  # `-m torch.utils.collect_env`: a facade has no code, what it stands for has
            target = sources_of(target)[0]
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif os.path.isdir(target) or target.endswith(".pyc") or zipfile.is_zipfile(target):
        runpy.run_path(target, run_name="__main__")  # which adds a folder to sys.path itself
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
        _run_file(os.path.abspath(target))
    return 0


def _tell_programs() -> None:
    """Python programs that this one starts (launchers, workers of ray) are to find `torch`, too: a module of that name is put first."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def _run_file(path: str) -> None:
    """What Python does with a script: its path is a full one in tracebacks, warnings and `__file__`, and sys.argv has what was typed."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)  # this file says `from __future__ import annotations`
    main = types.ModuleType("__main__")
    vars(main).update(__file__=path, __cached__=None, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(code, vars(main))


class _OfTheProgram:
    """An excepthook that leaves out of a traceback how the program was started, so that it begins where Python's would."""

    def __init__(self, show: Any) -> None:
        self._show = show

    def __call__(self, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        at = trace
        while at is not None and at.tb_frame.f_code is not run.__code__:
            at = at.tb_next
        while at is not None and (at.tb_frame.f_code in (run.__code__, _run_file.__code__) or at.tb_frame.f_globals is vars(runpy)):
            at = at.tb_next
        if at is not None or isinstance(error, SyntaxError):
            trace = at
            error.__traceback__ = at
        self._show(kind, error, trace)
