"""Objects of classes that a file names: what is written of them, and how they are made again.

A file may hold an object of a class that is data: a member of an enum, a path, a namespace, an instance of a dataclass, a named tuple, an
object of a class derived from a plain container or value. It is written by the name of its class, what this is called with, its state
and its items, which is what `copyreg` says of it. It is made again where the user allows the class (`_allowed.py`), and refused elsewhere.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import Any, NamedTuple

from flambeau import _tensor
from flambeau._C import ops
from flambeau.nn._errors import kind_of
from flambeau.serialization._allowed import (
    are_modules_allowed,
    found_by_name,
    is_never_allowed,
    library_class,
    module_names,
    names_of,
    user_names,
)
from flambeau.serialization._errors import FileFormatError, RefusedName, short
from flambeau.serialization._keys import Keys
from flambeau.serialization._ordinary import (
    add_items,
    called_instance,
    is_called,
    is_kept_out,
    is_reduced_by_object,
    new_instance,
    set_ordinary_state,
    why_not_made,
)

_PLAIN = (dict, list, tuple, set, frozenset, deque, str, int, float, complex, bytes, bytearray)
_NONE: tuple[Any, ...] = ()


class Parts(NamedTuple):
    """What an object is made of."""

    args: tuple[Any, ...]
    new: bool  # __new__ gets the arguments, not the class
    state: Any
    items: tuple[Any, ...]
    pairs: tuple[tuple[Any, Any], ...]


def is_data(kind: type) -> bool:
    """Whether instances are data and nothing else: what `load(weights_only=False)` makes of classes that the program has imported."""
    return issubclass(kind, (enum.Enum, PurePath, SimpleNamespace)) or is_dataclass(kind) or _is_namespace(kind) or (
        issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)
    )  # fmt: skip


def _is_namespace(kind: type) -> bool:
    argparse = sys.modules.get("argparse")
    return argparse is not None and issubclass(kind, argparse.Namespace)


def is_named(value: Any) -> bool:
    """Whether an object that is no plain one is written by the name of its class."""
    return is_data(type(value)) or isinstance(value, _PLAIN)


def is_ordinary(value: Any) -> bool:
    """Whether an object is of a class that says nothing of how it is pickled: its class by name, and its attributes."""
    kind = type(value)
    return is_reduced_by_object(kind) and found_by_name(kind)


def parts_of(value: Any, where: str) -> Parts:
    kind = type(value)
    if not found_by_name(kind):
        raise TypeError(
            f"save: {where} is a {kind_of(value)}, of a class that can not be found by its name (define it at the top level of a file, or "
            "convert the object)"
        )
    if isinstance(value, enum.Enum):
        return Parts((value.value,), False, None, _NONE, _NONE)
    try:
        reduced = value.__reduce_ex__(2)
    except Exception as error:
        raise TypeError(f"save: {where} is a {kind_of(value)}, which does not say what it is made of: {error}") from error
    function, args, state, items, pairs, *_ = (*reduced, None, None, None) if isinstance(reduced, tuple) else (None, (), None, None, None)
    new = function is copyreg.__newobj__  # type: ignore[attr-defined]
    if (args[0] if new and args else function) is not kind:
        raise TypeError(f"save: {where} is a {kind_of(value)}, which is made by a function of its own (convert it)")
    return Parts(tuple(args[1:] if new else args), new, state, tuple(items or ()), tuple(pairs or ()))


class Allowed:
    """What one file may name beyond plain values: what the user allows, and for `weights_only=False` classes that the program has imported.

    What the user allows is called as the file says. Of the others instances are made, without `__init__`; enums and paths alone are called.
    `_ordinary.py` says of which classes.
    """

    def __init__(self) -> None:
        self._user = user_names()
        self._data = are_modules_allowed()
        self._called = {id(what) for what in self._user.values()}
        self._values: dict[int, str] = {}  # classes that stand as values, and are neither made nor called
        self._ordinary: set[int] = set()
        self._keys = Keys()

    @functools.cached_property
    def _modules(self) -> dict[str, Any]:
        return module_names() if self._data else {}

    @functools.cached_property
    def _names(self) -> dict[int, str]:
        return {id(what): name for name, what in (self._modules | self._user).items()}

    def find(self, name: str, imported: bool = True) -> Any:
        """A class or function, or None. `imported=False` leaves out all that the user did not name: names that mean something else."""
        if name in self._user:
            return self._user[name]
        if not imported:
            return None
        if name in self._modules:
            return self._modules[name]
        if self._data and (what := self._of_the_library(name)) is not None:
            return what
        return self._imported(name) if self._data and not is_never_allowed(name) else None

    def _of_the_library(self, name: str) -> Any:
        """What is the library's: its other classes, and modules whose names are PyTorch's in this program and were not in the file's."""
        if (kind := library_class(name)) is not None:
            self._names[id(kind)] = name
            return kind
        module, _, last = name.rpartition(".")
        ours = module.partition(".")[0] == "flambeau" and module in sys.modules
        what = vars(sys.modules[module]).get(last) if ours else None
        return what if what is not None and self.has(what) and what.__module__.partition(".")[0] != "flambeau" else None

    def _imported(self, name: str) -> Any:
        kind = _in_its_module(name)
        if not isinstance(kind, type) or not isinstance(kind.__module__, str) or name not in names_of(kind):
            return None
        if not is_data(kind):
            if why_not_made(kind) is not None:
                return None
            self._ordinary.add(id(kind))
        self._names[id(kind)] = name
        if issubclass(kind, (enum.Enum, PurePath, SimpleNamespace)):
            self._called.add(id(kind))
        return kind

    def refusal(self, name: str) -> FileFormatError:
        """What is said of a name that nothing allows, and of a class, why no instance is made."""
        kind = _in_its_module(name) if self._data and not is_never_allowed(name) else None
        return refused(name, why_not_made(kind) if isinstance(kind, type) else None)

    def find_class(self, name: str) -> Any:
        """A class or function that the program has imported, as a value among others (`{"kind": Net}`), or None."""
        if not self._data or is_never_allowed(name):
            return None
        kind = _in_its_module(name.replace("__builtin__.", "builtins.", 1) if name.startswith("__builtin__.") else name)
        if not isinstance(kind, (type, FunctionType)) or is_kept_out(str(kind.__module__)) or is_kept_out(name):
            return None
        if isinstance(kind, FunctionType) and name.rpartition(".")[0] not in sys.modules:  # of a class: by getattr
            return None
        self._values[id(kind)] = name
        return kind

    @property
    def finds_methods(self) -> bool:
        """Whether a file may have methods among its values."""
        return self._data

    def op(self, name: str) -> Any:
        """A function of the op table, such as `torch.relu`, as a value."""
        what = getattr(ops, name, None) if not name.startswith("_") else None
        if not isinstance(what, BuiltinFunctionType):
            raise FileFormatError(f"getattr is called for {short(name)} of PyTorch's functions; expected one that is here, too")
        self._values[id(what)] = f"torch.{name}"
        return what

    def method_of(self, target: Any, name: str) -> Any:
        """A method of an object that the file made, or a function of a class that it names. Nothing is run for it."""
        kind = target if isinstance(target, type) else type(target)
        raw = inspect.getattr_static(kind, name, None)
        function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        known = self.has(kind) or id(kind) in self._values
        if known and isinstance(raw, type) and target is kind and _full_name(raw) == f"{_full_name(kind)}.{name}":
            return self._nested(raw)
        if not known or name.startswith("__") or not isinstance(function, FunctionType) or is_never_allowed(function.__module__):
            raise FileFormatError(f"getattr is called for {short(name)} of {short(target)}; expected a method of an object of the file")
        if isinstance(raw, classmethod):
            return MethodType(function, kind)
        return function if target is kind or isinstance(raw, staticmethod) else MethodType(function, target)

    def _nested(self, kind: type) -> Any:
        """A class that is defined in another, which is named by that and its name in there."""
        name = _full_name(kind)
        found = self.find(name) or self.find_class(name)
        if found is None:
            raise self.refusal(name)
        return found

    def has(self, what: Any) -> bool:
        return id(what) in self._names

    def holds(self, what: Any) -> bool:
        """Whether it is a class or function that came in as a value."""
        return id(what) in self._values

    def may_call(self, what: Any) -> bool:
        return id(what) in self._called

    def run(self, what: Any, do: Callable[[], Any]) -> Any:
        """Runs code of the user's, if it is allowed."""
        name = self._names.get(id(what))
        if name is None and id(what) in self._values:
            raise self.refusal(self._values[id(what)])
        if name is None:
            raise FileFormatError(f"{short(what)} is called, which {'no file may do' if callable(what) else 'is no function'}")
        try:
            return do()
        except FileFormatError:
            raise
        except Exception as error:
            raise FileFormatError(f"{name}, which was allowed, raised {type(error).__name__}: {error}") from error

    def _check_keys(self, keys: list[Any]) -> None:
        self._keys.check(keys, lambda key: self.has(type(key)) and type(key).__hash__ is not None)

    def call(self, what: Any, args: tuple[Any, ...]) -> Any:
        if id(what) in self._ordinary and id(what) not in self._called and is_called(what):
            return self.run(what, lambda: called_instance(what, args, self._check_keys))
        if self.has(what) and not self.may_call(what):
            name = self._names[id(what)]
            raise RefusedName(
                f"{name} is called; weights_only=False lets a file make instances, not call (add_safe_globals allows that)", name
            )
        return self.run(what, lambda: what(*args))

    def make(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        if not isinstance(kind, type):
            raise FileFormatError(f"an instance of {short(kind)} is wanted, which is no class")
        if id(kind) in self._ordinary and id(kind) not in self._called:
            return self.run(kind, lambda: new_instance(kind, args, kwargs or {}))
        return self.run(kind, lambda: kind.__new__(kind, *args, **(kwargs or {})))

    def made_of(self, kind: Any, parts: Parts) -> Any:
        target = self.make(kind, parts.args) if parts.new else self.call(kind, parts.args)

        def fill() -> None:
            if parts.items:
                (functools.partial(add_items, target) if id(kind) in self._ordinary else target.extend)([*parts.items])
            for key, value in parts.pairs:
                target[key] = value
            if parts.state is not None:
                self.set_state(target, parts.state)

        self.run(kind, fill)
        return target

    def set_state(self, target: Any, state: Any) -> None:
        (set_state if id(type(target)) in self._called else set_ordinary_state)(target, state)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _in_its_module(name: str) -> Any:
    """What a module that the program has imported has under a name, or None. A class may be defined in another one."""
    parts = name.split(".")
    for i in range(len(parts) - 1, 0, -1):
        if (home := sys.modules.get(".".join(parts[:i]))) is not None:
            found = getattr(home, "__dict__", {}).get(parts[i])
            for part in parts[i + 1 :]:
                found = vars(found).get(part) if isinstance(found, type) else None
            return found
    return None


def refused(name: str, why: str | None = None) -> FileFormatError:
    """What is said of a name that nothing allows."""
    if is_never_allowed(name):
        return FileFormatError(f"it names {short(name)}, which no file may use: a hostile file, most likely")
    if why is not None:
        return RefusedName(
            f"it names {short(name)}, which weights_only=False makes no instance of: {why} (if you trust the file, allow it: "
            f"{_tensor.library}.serialization.add_safe_globals([{_said(name)}]))",
            name,
        )
    way = f"if you trust the file, allow it: {_tensor.library}.serialization.add_safe_globals([{_said(name)}])"
    return RefusedName(
        f"it names {short(name)}, which is not among what a file may name; expected tensors in plain containers ({way}, with (what stands "
        "for it, its name) where it is another here; modules, enums, dataclasses and ordinary objects whose classes the program has "
        "imported: weights_only=False)",
        name,
    )


def _said(name: str) -> str:
    """A name of a file as a program would write it."""
    short_name = name.removeprefix("__main__.")
    return short_name if all(part.isidentifier() for part in short_name.split(".")) and len(short_name) <= 200 else "..."


def ways_in(refused_now: list[str], refused_then: list[str] | None) -> str:
    """What is said behind a refusal: all names that want to be allowed, now and (None: that is now) with `weights_only=False`."""
    if refused_then is not None and not refused_then:
        return " With weights_only=False the file is read: it makes objects of classes that the program has imported, and calls nothing."
    more = refused_then is not None and len(refused_then) < len(refused_now)
    names = [_said(name) for name in (refused_then if refused_then is not None and more else refused_now) if not is_never_allowed(name)]
    modules = dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name)
    lines = [*(f"import {module}" for module in modules), f"{_tensor.library}.serialization.add_safe_globals([{', '.join(names)}])"]
    head = " What wants to be allowed, if you trust the file" + (", for weights_only=False:" if more else ":")
    return "\n    ".join([head, *lines[:30]]) if names else ""


def set_state(target: Any, state: Any) -> None:
    """What pickle does for BUILD."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for key, value in (slots or {}).items():
        setattr(target, key, value)
