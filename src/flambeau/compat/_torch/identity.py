"""What says who it is says `torch.` while the library answers for PyTorch: texts of types and shapes, and where classes are found.

Pickles, `copyreg` and registries of packages find classes by `__module__` and name, so that must be a place from which they can
be imported: `names.home_of` gives it.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from flambeau import _C, _memory_format, _results, _tensor
from flambeau.compat._torch.names import home_of


def adopt() -> None:
    """Types and texts of the core. Done once, before the first facade is made."""
    _tensor.library = "torch"
    for kind in (_C.Tensor, _C.Size, _C.dtype, _C.device, _C.Generator, *_results.made.values()):
        _say(kind)
        kind.__name__ = kind.__name__  # the name of a type of the core that Python's own errors say loses the library's before it
    texts: tuple[tuple[Any, Callable[[Any], str]], ...] = (
        (_C.dtype, lambda self: f"torch.{self.name}"),
        (_C.Size, lambda self: f"torch.Size({list(self)})"),
        (_memory_format.memory_format, lambda self: f"torch.{self._name}"),
        (_memory_format.layout, lambda self: f"torch.{self._name}"),
    )
    for kind, text in texts:
        setattr(kind, "__repr__", text)  # noqa: B010


_origins: dict[Any, str] = {}  # a class or function -> the module of ours that defines it


def rename(module: types.ModuleType) -> None:
    """Classes and functions that are reached through a facade say PyTorch's place, where they can be found there."""
    places: dict[str, None] = {}
    for source in module.__dict__["__facade_sources__"]:
        for name, value in list(vars(source).items()):
            if not isinstance(value, (type, types.FunctionType)) or name != value.__name__:
                continue
            place = home_of(value.__module__ or "", name)
            if place is not None and _lies_in(place, name, value):
                _origins[value] = value.__module__
                _say(value)
                places[place] = None
            if value.__module__ == module.__name__ and value in _origins:
                _lend(module, value)
    for place in places:  # cloudpickle and programs look into sys.modules for a class's module
        importlib.import_module(place)


def _lies_in(place: str, name: str, value: Any) -> bool:
    """Whether `from place import name` would give the value."""
    from flambeau.compat._torch.finder import sources_of

    return any(vars(importlib.import_module(source)).get(name) is value for source in sources_of(place))


def _lend(home: types.ModuleType, kind: Any) -> None:
    """`typing.get_type_hints` reads a class's annotations in its module, which is `home` from now on: the names in them are put there."""
    own = vars(sys.modules[_origins[kind]])
    for text in getattr(kind, "__annotations__", {}).values():
        for name in re.findall(r"[A-Za-z_]\w*", text) if isinstance(text, str) else ():
            if isinstance(own.get(name), types.ModuleType):
                getattr(home, name, None)  # a module of ours has a facade there
            elif name in own:
                vars(home).setdefault(name, own[name])


def _say(value: Any) -> None:
    place = home_of(getattr(value, "__module__", None) or "", value.__name__)
    if place is None:
        return
    try:
        value.__module__ = place
    except (AttributeError, TypeError):  # types that can not be written to keep their name
        return
