"""The finder of `torch` and `functorch` and everything below them, and the distribution that `importlib.metadata` finds."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import itertools
import os
import pathlib
import re
import sys
import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from flambeau import _whole_calls
from flambeau._imports import share_one_lock
from flambeau.compat._torch.facade import Facade, missing_text, place_of_caller
from flambeau.compat._torch.names import FOLLOWS, SOURCES
from flambeau.compat._torch.standard import show_below

_OVERLAY = "flambeau.compat._torch.overlay"
_BESIDE = "flambeau.compat._torch"  # where functorch lies, which PyTorch installs beside torch
ROOTS = ("torch", "functorch")
_METADATA = f"""\
Metadata-Version: 2.1
Name: torch
Version: {FOLLOWS}
Summary: PyTorch's names, answered by flambeau
Requires-Dist: flambeau
"""


def _exists(module: str) -> bool:
    """Whether this library has that module. Nothing is imported for it: Python asks a finder while it holds a lock that imports need."""
    if module in sys.modules:
        return True
    path = pathlib.Path(__file__).parents[2].joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def sources_of(fullname: str) -> tuple[str, ...]:
    """The modules of ours that make up a module of PyTorch's: the overlay first, then what the map says, or the same name."""
    root, dot, path = fullname.partition(".")
    if root != "torch":
        return (f"{_BESIDE}.{fullname}",) if _exists(f"{_BESIDE}.{fullname}") else ()
    found = [f"{_OVERLAY}{dot}{path}"] if _exists(f"{_OVERLAY}{dot}{path}") else []
    named = SOURCES.get(path, path)
    for source in (named,) if isinstance(named, str) else named:
        module = f"flambeau.{source}" if source else "flambeau"
        if not module.startswith("flambeau.compat") and _exists(module):
            found.append(module)
    return tuple(found)


def known_modules(below: str) -> list[str]:
    """Names of the modules directly below one: what an import that fails may have meant."""
    import pkgutil

    names: set[str] = set()
    prefix = below.partition(".")[2]
    for path in SOURCES if below.startswith("torch") else ():
        parent, _, last = path.rpartition(".")
        if parent == prefix:
            names.add(last)
    for source in sources_of(below):
        module = importlib.import_module(source)
        names.update(info.name for info in pkgutil.iter_modules(getattr(module, "__path__", [])))
    return sorted(names)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads `torch` and what is below it, as facades."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname == "optree":
            return _with_tables(importlib.machinery.PathFinder.find_spec(fullname, path, target))
        if fullname.partition(".")[0] not in ROOTS:
            return None
        if sources_of(fullname):
            spec = importlib.machinery.ModuleSpec(fullname, self, origin=f"flambeau ({', '.join(sources_of(fullname))})", is_package=True)
            spec.submodule_search_locations = []
            return spec
        if sys._getframe(2).f_code.co_name == "find_spec":  # somebody asks whether it exists
            return None
        owner, _, name = fullname.rpartition(".")
        text = missing_text(f"the module {fullname}", owner, name, known_modules(owner), place_of_caller())
        raise ModuleNotFoundError(text, name=fullname)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        sources = [importlib.import_module(name) for name in sources_of(spec.name)]
        return Facade(spec.name, sources[-1].__doc__, sources)

    def exec_module(self, module: types.ModuleType) -> None:
        from flambeau.compat._torch import identity

        identity.rename(module)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """What `importlib.metadata.version("torch")` finds."""
        name = getattr(context, "name", None)
        if name is None or re.sub(r"[-_.]+", "-", name).lower() == "torch":
            yield Torch()

    def invalidate_caches(self) -> None:
        sources_of.cache_clear()


def _with_tables(spec: importlib.machinery.ModuleSpec | None) -> importlib.machinery.ModuleSpec | None:
    """optree goes into containers of the very types that it knows; `module._parameters` is a plain dict in PyTorch alone."""
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        return spec
    execute = spec.loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        from flambeau._handles import HookTable, Table

        execute(module)
        everywhere = vars(sys.modules["optree.registry"])["__GLOBAL_NAMESPACE"]
        for kind in (Table, HookTable):

            def taken_apart(table: Any) -> tuple[Any, Any, Any]:
                return tuple(table.values()), tuple(table), tuple(table)

            def put_together(keys: Any, values: Any, kind: type[Table] = kind) -> Table:
                return kind(zip(keys, values, strict=True))

            module.register_pytree_node(kind, taken_apart, put_together, namespace=everywhere)

    setattr(spec.loader, "exec_module", exec_module)  # noqa: B010
    return spec


class Torch(importlib.metadata.Distribution):
    """The distribution `torch` of this process."""

    def read_text(self, filename: str) -> str | None:
        return {"METADATA": _METADATA, "top_level.txt": "functorch\ntorch\n", "INSTALLER": "flambeau\n"}.get(filename)

    def locate_file(self, path: Any) -> pathlib.Path:  # type: ignore[override]
        return pathlib.Path(__file__).resolve().parents[3] / str(path)

    @property
    def files(self) -> Any:
        return None


_finder = Finder()


def is_installed() -> bool:
    """Whether `torch` means this library in this process."""
    return _finder in sys.meta_path


def install() -> None:
    """Makes `import torch` mean this library from now on, in this process.

    Raises:
        ImportError: PyTorch itself was imported before; two libraries can not have one name.
    """
    if is_installed():
        return
    loaded = sys.modules.get("torch")
    if loaded is not None:
        where = getattr(loaded, "__file__", None) or "no file"
        raise ImportError(
            f"flambeau.compat.torch: another `torch` is loaded already (version {getattr(loaded, '__version__', '?')}, {where}), and "
            "modules that hold it would go on using it; start the program with `flambeau run`, or import flambeau.compat.torch before "
            "anything else",
            name="torch",
        )
    for root in ROOTS:
        share_one_lock(root)
    sys.meta_path.insert(0, _finder)
    try:
        from flambeau.compat._torch import identity

        identity.adopt()
        _tell_children()
        _whole_calls.turn_on()  # who says `import torch` may hand over objects that are no Tensors, of whose classes nobody hears
        importlib.import_module("torch")
        show_below()
    except BaseException:
        sys.meta_path.remove(_finder)
        sys.modules.pop("torch", None)
        raise


def _tell_children() -> None:
    """Workers that multiprocessing (`spawn`, `forkserver`) and loky, joblib's pool, start anew read the program's objects and are to find
    these names, too.

    Both start them by this function. What a program starts by subprocess is left alone: such a command matches neither.
    """
    starter: Any = importlib.import_module("_posixsubprocess")
    start = starter.fork_exec

    @functools.wraps(start)
    def with_names(args: Sequence[str | bytes], *others: Any) -> int:
        return int(start(_with_names([os.fsdecode(word) for word in args]), *others))

    starter.fork_exec = with_names


def _with_names(words: list[str]) -> list[str]:
    """A command that starts a worker, such that `torch` means this library there; any other command as it is."""
    for i, (option, what) in enumerate(itertools.pairwise(words)):
        if option == "-c":
            if what.startswith(("from multiprocessing.spawn ", "from multiprocessing.forkserver ")):
                words[i + 1] = f"import flambeau.compat.torch; {what}"
            break
        if option == "-m":
            if what.endswith("loky.backend.popen_loky_posix"):
                words[i:i] = ["-m", "flambeau", "run"]
            break
    return words
