"""`flambeau run --report`: every `torch.*` name that a program would miss, found by reading its source.

Nothing of the program is imported or run. What is looked at: imports of torch's modules and names from them, attributes of what
these imports bind (`F.softmax`, `torch.cuda.amp.autocast`), `getattr(torch, "name")`, and calls of what is here and always refuses
(`torch.onnx.export`): functions that say `-> NoReturn`. What is not: methods of values whose type only a run would tell, and what
refuses on every machine without a device of another kind, as PyTorch's does. A name inside of `try: ... except ImportError`, or
behind `hasattr` or `is_..._available()`, is one that the program can do without; it is listed as guarded.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import types
import warnings
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, NoReturn

from flambeau.compat._torch.facade import Facade, hint
from flambeau.compat._torch.finder import ROOTS, known_modules

_ASKS = ("available", "initialized")  # how the questions end that guard a use, after `is_`
_CATCHES = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "RuntimeError"}


# Whose functions refuse where there is no such device, here and in PyTorch.
_DEVICES = ("torch.cuda.", "torch.mps.", "torch.xpu.", "torch.mtia.", "torch.accelerator.")


class Missing(NamedTuple):
    """A name that is not here, or that is here to refuse."""

    file: str
    line: int
    name: str
    hint: str  # what there is instead, with the sign before it
    guarded: bool
    refused: bool = False

    def __str__(self) -> str:
        what = f"{self.name} is refused" if self.refused else self.name
        return f"{self.file}:{self.line}: {what}{self.hint}{' (guarded)' if self.guarded else ''}"


@cache
def missing_part(path: str) -> tuple[str, str] | None:
    """None where all of `torch.a.b` is here; else the beginning that is not, and what there is instead.
    """
    parts = path.split(".")
    here: object = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 1):
        if not isinstance(here, (types.ModuleType, type)):
            return None  # what an object of ours answers is not looked into
        try:
            here = getattr(here, part)
        except AttributeError:
            owner = ".".join(parts[:i])
            known = {*dir(here), *(known_modules(owner) if isinstance(here, Facade) else ())}
            return f"{owner}.{part}", hint(owner, part, known, isinstance(here, Facade))
    return None


@cache
def refusal(path: str) -> str | None:
    """Why a call of `torch.a.b`, which is here, is always refused; None where it is not."""
    if path.startswith(_DEVICES):
        return None
    try:
        value = functools.reduce(getattr, path.split(".")[1:], importlib.import_module(path.split(".")[0]))
    except AttributeError:
        return None
    made = value.__init__ if isinstance(value, type) else value
    if getattr(made, "__annotations__", {}).get("return") not in ("NoReturn", NoReturn):
        return None
    for text in (made.__doc__, value.__doc__):
        why = (text or "").strip().partition("\n")[0].rstrip(".")
        if why.startswith("Refused: "):
            return why.removeprefix("Refused")
    return ""


class _Reader(ast.NodeVisitor):
    """Walks over one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.bound: dict[str, str] = {}  # a name of the file -> what of torch it is
        self.guards = 0
        self.found: dict[tuple[str, int], Missing] = {}

    def _check(self, path: str, line: int) -> None:
        lacking = missing_part(path)
        if lacking is not None:
            self.found.setdefault((lacking[0], line), Missing(self.file, line, lacking[0], lacking[1], self.guards > 0))

    def _guarded(self, nodes: list[ast.stmt]) -> None:
        self.guards += 1
        for node in nodes:
            self.visit(node)
        self.guards -= 1

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if (root := alias.name.split(".")[0]) in ROOTS:
                self._check(alias.name, node.lineno)
                self.bound[alias.asname or root] = alias.name if alias.asname else root

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None or node.module.split(".")[0] not in ROOTS:
            return
        if missing_part(node.module) is not None:
            self._check(node.module, node.lineno)
            return
        for alias in node.names:
            if alias.name != "*":
                path = f"{node.module}.{alias.name}"
                self._check(path, node.lineno)
                self.bound[alias.asname or alias.name] = path

    def _path(self, node: ast.expr) -> str | None:
        """`torch.a.b` for an expression that is a chain of attributes of something bound."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.bound:
            return None
        return ".".join([self.bound[node.id], *reversed(names)])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        elif isinstance(node.ctx, ast.Load):
            self._check(path, node.lineno)

    def _check_call(self, node: ast.expr) -> None:
        path = self._path(node)
        if path is not None and missing_part(path) is None and (why := refusal(path)) is not None:
            self.found.setdefault((path, node.lineno), Missing(self.file, node.lineno, path, why, self.guards > 0, True))

    def visit_Call(self, node: ast.Call) -> None:
        self._check_call(node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) == 2:
            owner, name = self._path(node.args[0]), node.args[1]
            if owner is not None and isinstance(name, ast.Constant) and isinstance(name.value, str):
                self._check(f"{owner}.{name.value}", node.lineno)
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        caught: set[str] = set()
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            caught.update("Exception" if kind is None else getattr(kind, "id", getattr(kind, "attr", "")) for kind in kinds)
        if caught & _CATCHES:
            self._guarded(node.body)
        else:
            for statement in node.body:
                self.visit(statement)
        for handler in node.handlers:
            self.visit(handler)
        for statement in (*node.orelse, *node.finalbody):
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        asked = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.test) if isinstance(n, (ast.Name, ast.Attribute))}
        if asked & {"hasattr", "TYPE_CHECKING"} or any(name.startswith("is_") and name.endswith(_ASKS) for name in asked):
            self._guarded(node.body)
        else:
            for statement in node.body:
                self.visit(statement)
        for statement in node.orelse:
            self.visit(statement)


def files_of(target: str) -> Iterator[str]:
    """The Python files of a script, a folder, or a package or module by name, which is found and not imported.

    Raises:
        FileNotFoundError: there is nothing of that name.
    """
    place = target
    if not os.path.exists(place):
        try:
            spec = importlib.util.find_spec(target) if "." not in target.strip(".") else None
        except (ImportError, ValueError):
            spec = None
        if spec is None or not (spec.submodule_search_locations or spec.origin):
            raise FileNotFoundError(f"flambeau run --report: {target!r}; expected a Python file, a folder, or an installed package")
        place = next(iter(spec.submodule_search_locations or [])) if spec.submodule_search_locations else str(spec.origin)
    if os.path.isfile(place):
        yield place
        return
    for folder, folders, names in sorted(os.walk(place)):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))


def missing_names(source: str, file: str = "<string>") -> list[Missing]:
    """What one file would miss, by line.

    Raises:
        SyntaxError: the source is no Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        tree = ast.parse(source, file)
    reader = _Reader(file)
    # Imports first, wherever they stand: a function may use what is imported below it.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            ours = [(alias, root) for alias in node.names if (root := alias.name.split(".")[0]) in ROOTS]
            reader.bound.update({alias.asname or root: alias.name if alias.asname else root for alias, root in ours})
    reader.visit(tree)
    return sorted(reader.found.values(), key=lambda m: (m.line, m.name))


def report(target: str) -> int:
    """Prints what a script, folder or package would miss, and what it calls that is always refused.

    Returns:
        0 where there is nothing of either that the program does not guard, else 1.
    """
    from flambeau.compat._torch import install

    install()
    found: list[Missing] = []
    files = 0
    for file in files_of(target):
        try:
            with open(file, "rb") as stream:
                found += missing_names(stream.read().decode("utf-8", "replace"), os.path.relpath(file))
        except (SyntaxError, ValueError) as fault:
            print(f"{file}: not read: {fault}")
            continue
        files += 1
    for entry in found:
        print(entry)
    needed = {m.name for m in found if not m.guarded}
    guarded = {m.name for m in found} - needed
    refused = {m.name for m in found if m.refused} & needed
    n = len(needed - refused)
    counts = [f"{files} file{'s' * (files != 1)}", f"{n} name{'s' * (n != 1)} missing", *([f"{len(refused)} refused"] if refused else ())]
    print(f"{target}: {', '.join(counts)}, {len(guarded)} more guarded")
    return 1 if needed else 0


__all__ = ["Missing", "files_of", "missing_names", "report"]
