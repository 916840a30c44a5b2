"""Runs a wrong program and returns what its user sees: what it prints, warnings, the error with its notes and causes, and the
program's own lines on the way to it. Nothing in the text depends on the machine: no paths, no addresses, no lines of libraries."""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import warnings

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))

# `flambeau` where the library is meant, and not where a program speaks of it.
_IMPORTS = re.compile(r"^(\s*(?:import|from) )flambeau\b", re.MULTILINE)
_PLACES = [
    (re.compile(r"0x[0-9a-f]{6,}"), "0x..."),
    (re.compile(r"[\w./+-]*/(?:site-packages|src|torch)/((?:flambeau|torch|numpy)/)"), r"\1"),
    (re.compile(r"(\btorch/[\w/.]+\.py):\d+"), r"\1"),
    (re.compile(r" \(Triggered internally at .*"), ""),
    (re.compile(r"\x1b\[\d+m"), ""),
]


def source_of(program: pathlib.Path, library: str = "flambeau") -> str:
    """The program's text, for PyTorch with its imports replaced."""
    return _IMPORTS.sub(rf"\g<1>{library}", program.read_text())


def mistake(program: pathlib.Path) -> str:
    """The first line of a program says what is wrong with it."""
    return program.read_text().split("\n", 1)[0].strip('"')


def _plain(text: str, file: str, folder: str) -> str:
    for prefix in (folder + os.sep, folder):
        text = text.replace(prefix, "")
    for pattern, by in _PLACES:
        text = pattern.sub(by, text)
    lines, hidden = [], False
    for line in text.split("\n"):
        # Of the tracebacks in a text the program's own lines are left, without the marks that newer Pythons put below them; and
        # not the lines of who runs the program.
        if frame := re.match(r'\s*File "([^"]*)"', line):
            hidden = frame[1] != file
        elif not line.startswith("    "):
            hidden = False
        if not (hidden or re.fullmatch(r"\s*[\^~]+\s*", line) or re.match(r"  (/|<frozen |<string>).*:\d+, in ", line)):
            lines.append(line.replace("\t", "    ").rstrip())
    return "\n".join(lines)


def _name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _lines(error: BaseException, file: str) -> list[str]:
    out = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == file:
            function = trace.tb_frame.f_code.co_name
            inside = "" if function == "<module>" else f", in {function}"
            out.append(f"{file}:{trace.tb_lineno}{inside}: {linecache.getline(file, trace.tb_lineno).strip()}")
        trace = trace.tb_next
    return out


def _told(error: BaseException, file: str) -> list[str]:
    """As a traceback tells it: what it was caused by first."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    out = [*_told(before, file), "and then" if error.__cause__ is None else "which was the cause of"] if before else []
    out += _lines(error, file)
    text = str(error)
    out.append(f"{_name(type(error))}: {text}" if text else _name(type(error)))
    return out + [str(note) for note in getattr(error, "__notes__", ()) if str(note) not in text]


def run(program: pathlib.Path, library: str = "flambeau") -> tuple[str, bool]:
    """What the user sees, and whether the program was refused. Programs about memory have a process of their own."""
    if program.stem.startswith("memory_") and not os.environ.get("FLAMBEAU_ERRORS_CHILD"):
        path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "errors", "--show", program.stem, "--library", library]
        env = {**os.environ, "PYTHONPATH": path, "FLAMBEAU_ERRORS_CHILD": "1", "FLAMBEAU_NUM_THREADS": "1"}
        shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        return shown, "Error: " in shown
    return _run_here(program, library)


def _run_here(program: pathlib.Path, library: str) -> tuple[str, bool]:
    source, file = source_of(program, library), program.name
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(program.stem)
    module.__file__ = file
    sys.modules[program.stem] = module
    printed, out, refused = io.StringIO(), [], False
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(source, file, "exec"), module.__dict__)
        except Exception as error:
            refused = True
            told = _told(error, file)
        finally:
            os.chdir(before)
            del sys.modules[program.stem], linecache.cache[file]
        if printed.getvalue():
            out.append(printed.getvalue().rstrip("\n"))
        for w in warned:
            out.append(f"{w.filename}:{w.lineno}: {_name(w.category)}: {w.message}")
        if refused:
            out += told
        text = _plain("\n".join(out), file, os.path.realpath(folder))
    module.__dict__.clear()
    gc.collect()
    return text + "\n", refused
