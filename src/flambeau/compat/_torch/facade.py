"""A module under PyTorch's name, made of modules of ours, and what is said where a name is missing.

Names are looked up in the facade's sources in order. What can be called is kept in the facade, so that the next look is a plain
one; plain values (switches, numbers) are asked for each time, since somebody may change them. What a program writes
(`torch.nn.init.xavier_uniform_ = mine`) is written through to the source that has the name, so that our own layers see it.
"""

from __future__ import annotations

import difflib
import dis
import importlib
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.compat._torch.absent import instead_of
from flambeau.compat._torch.borrowed import borrowed
from flambeau.compat._torch.standard import has_imported

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_PLAIN = (bool, int, float, complex, str, bytes, tuple, list, dict, set, type(None))


def place_of_caller() -> str:
    """`file.py:12`, the innermost line outside of this package and of the import system."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("flambeau.compat._torch", "importlib")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, or None where none is like it."""
    found = difflib.get_close_matches(name, known, 1, 0.7)
    return found[0] if found else None


# Where a name is looked for that its module has not.
_ELSEWHERE = (
    "", "nn", "nn.functional", "linalg", "fft", "special", "autograd", "func", "optim", "optim.lr_scheduler", "utils.data", "distributions",
)  # fmt: skip


def elsewhere(owner: str, name: str) -> str | None:
    """The full name of what another module has under this name."""
    if name.startswith("_"):
        return None
    for part in _ELSEWHERE:
        module = importlib.import_module(f"flambeau.{part}" if part else "flambeau")
        path = f"torch.{part}" if part else "torch"
        if path != owner and name in getattr(module, "__all__", dir(module)) and callable(getattr(module, name, None)):
            return f"{path}.{name}"
    return None


def hint(owner: str, name: str, known: Iterable[str], module: bool = True) -> str:
    """What follows a name that its owner, a module or a class, has not: what there is instead, who else has it, or the nearest name."""
    if found := instead_of(f"{owner}.{name}"):
        return f": {found}"
    if module and (found := elsewhere(owner, name)):
        return f"; {found} has this name"
    found = nearest(name, sorted(k for k in known if k.startswith("_") == name.startswith("_")))
    return f"; the nearest name is {owner}.{found}" if found else ""


def missing_text(path: str, owner: str, name: str, known: Iterable[str], where: str) -> str:
    """What is said of a name that is not here: its full name, what there is instead or the nearest one, and who asked."""
    return f"{path} is not in flambeau{hint(owner, name, known)} (asked for at {where})"


class MissingName(AttributeError):
    """A name of PyTorch's that is not here. The text is made when it is read: most of these are caught by `hasattr`."""

    def __init__(self, module: Facade, name: str) -> None:
        super().__init__()
        self.name, self.obj = name, module
        self._module, self._where = module, place_of_caller()

    def __str__(self) -> str:
        owner = self._module.__name__
        return missing_text(f"{owner}.{self.name}", owner, str(self.name), dir(self._module), self._where)


class Facade(types.ModuleType):
    """A module of PyTorch's name whose content lies in `__facade_sources__`."""

    __facade_sources__: Sequence[types.ModuleType]

    def __init__(self, name: str, doc: str | None, sources: Sequence[types.ModuleType]) -> None:
        super().__init__(name, doc)
        own = self.__dict__
        own["__facade_sources__"] = tuple(sources)
        own["__path__"] = []  # everything may have submodules, and none of them is found in a folder
        for source in reversed(own["__facade_sources__"]):
            own["__file__"] = getattr(source, "__file__", None)
            for key, value in vars(source).items():
                if not key.startswith("__") and keeps(value):
                    own[key] = value
        if name == "torch":
            own["torch"] = self  # which imports itself: annotations say torch.torch.Tensor

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return public_names(self)
        for source in self.__dict__.get("__facade_sources__", ()):
            try:
                value = getattr(source, name)
            except AttributeError:
                continue
            return _shown(self, name, value)
        if not name.startswith("__") or name in ("__config__", "__future__"):
            submodule = _submodule(self, name)
            if submodule is not None:
                return submodule
        if has_imported(self.__name__, name):
            return importlib.import_module(name)
        lent = None if name.startswith("__") else borrowed(self.__name__, name)
        if lent is not None:
            return lent
        if _is_from_import(sys._getframe(1)):
            text = missing_text(f"{self.__name__}.{name}", self.__name__, name, dir(self), place_of_caller())
            raise ImportError(text, name=self.__name__)
        raise MissingName(self, name)

    def __reduce__(self) -> Any:
        """By name, as cloudpickle has modules that a function knows (`import torch` of a notebook): it asks for their exact type."""
        return importlib.import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Facade) and value.__name__ == f"{self.__name__}.{name}" and _has_function(self, name):
            return  # nn.parallel.replicate is the function, also when the submodule of this name was imported later
        for source in self.__facade_sources__:
            if not name.startswith("__") and hasattr(getattr(type(source), name, None), "__set__"):
                setattr(source, name, value)  # a switch, which may refuse the value
                return
        self.__dict__[name] = value
        if isinstance(value, Facade) or name.startswith("__"):
            return
        having = [source for source in self.__facade_sources__ if name in vars(source)]
        if having and not keeps(value):
            del self.__dict__[name]
        shown = vars(having[0])[name] if having else None
        for source in having:  # one may have imported it from another, as the overlay does
            if vars(source)[name] is shown:
                setattr(source, name, value)

    def __dir__(self) -> list[str]:
        names = {name for name in self.__dict__ if name != "__facade_sources__"}
        for source in self.__facade_sources__:
            names.update(dir(source))
        return sorted(names)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of flambeau>"


# Functions and no methods: what a module of ours has under a method's name would take its place.


def _submodule(facade: Facade, name: str) -> Any:
    from flambeau.compat._torch.finder import sources_of

    path = f"{facade.__name__}.{name}"
    return importlib.import_module(path) if path in sys.modules or sources_of(path) else None


def _shown(facade: Facade, name: str, value: Any) -> Any:
    """A value as programs see it: a module of ours under PyTorch's name."""
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "flambeau":
        from flambeau.compat._torch.names import torch_path

        path = torch_path(value.__name__)
        below = _submodule(facade, name)
        return below if below is not None else value if path in (None, "torch") else importlib.import_module(str(path))
    if keeps(value):
        facade.__dict__[name] = value
    return value


def _has_function(facade: Facade, name: str) -> bool:
    return any(isinstance(vars(source).get(name), types.FunctionType) for source in facade.__facade_sources__)


def keeps(value: Any) -> bool:
    """Whether a facade keeps a value: no plain one, which may change, and no module, which has a facade."""
    return not isinstance(value, (types.ModuleType, *_PLAIN))


def public_names(module: types.ModuleType) -> list[str]:
    """What `from module import *` takes."""
    names: set[str] = set()
    for source in module.__facade_sources__:
        declared = getattr(source, "__all__", None)
        names.update(declared if declared is not None else (n for n in dir(source) if not n.startswith("_")))
    return sorted(n for n in names if n != "annotations")


def _is_from_import(frame: types.FrameType) -> bool:
    """Whether the frame stands at `from module import name`, which drops the text of an AttributeError."""
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == _IMPORT_FROM
