"""What a function, a type or a value is called: in the text of a graph, and in the code that is generated from it.

Names of this library begin with `flambeau.`, and with `torch.` while it answers for PyTorch, so that code can be read (and run) by
who wrote the program.
"""

from __future__ import annotations

import builtins
import importlib
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _tensor
from flambeau._whole_calls import is_native_in_pytorch

__all__ = ["function_name", "is_ours", "library_module", "library_name", "pretty_type"]

_SPACES = ("nn.functional", "linalg", "fft", "special")
# Functions that are in the top level, too, and that PyTorch has in `nn.functional` alone.
_BELOW = frozenset("gelu glu linear logsigmoid softplus softshrink softsign tanhshrink".split())


def library_name() -> str:
    """`flambeau`, or `torch` under `flambeau run`."""
    return _tensor.library


def library_module() -> Any:
    """The module of that name."""
    return sys.modules.get(library_name(), flambeau)


def is_ours(module: str) -> bool:
    """Whether a module is of this library, under either name."""
    return module.partition(".")[0] in ("flambeau", "torch") and not (module.startswith("torch") and library_name() != "torch")


def _reached(path: str, name: str, value: Any) -> bool:
    """Whether `path.name` is the value, going through modules that may be facades."""
    try:
        return getattr(importlib.import_module(path), name, None) is value
    except ImportError:
        return False


def _shown(module: str) -> str:
    """A module's path under the name that texts say."""
    if library_name() == "torch" and module.partition(".")[0] == "flambeau":
        from flambeau.compat._torch.names import torch_path

        return torch_path(module) or module
    return module


def _home(value: Any, name: str) -> str | None:
    """The public place from which `value` can be taken by its name; None for what is not this library's."""
    module = getattr(value, "__module__", None) or ""
    if not is_ours(module):
        return None
    root = "flambeau"
    places = [root, *(f"{root}.{space}" for space in _SPACES)]
    if name in _BELOW:
        places = [f"{root}.nn.functional", *places]
    if not isinstance(value, types.BuiltinFunctionType) and not module.rpartition(".")[2].startswith("_"):
        places = [root, module] if is_native_in_pytorch(name) else [module, root]
    for place in (*places, module):
        if _reached(place, name, value):
            return _shown(place)
    return _shown(module)


def function_name(value: Callable[..., Any]) -> str:
    """The path of a function or class, as the text of a graph says it.

    >>> import operator
    >>> import flambeau as fl
    >>> function_name(operator.add), function_name(fl.relu), function_name(fl.nn.functional.relu), function_name(len)
    ('operator.add', 'flambeau.relu', 'flambeau.nn.functional.relu', 'builtins.len')
    """
    holder: Any
    if path := getattr(value, "_fl_path", None):  # an operator's
        return str(path)
    owner = getattr(value, "__objclass__", None)
    name = getattr(value, "__name__", None) or getattr(value, "__qualname__", None) or type(value).__name__
    in_python = isinstance(value, types.FunctionType) and vars(flambeau.Tensor).get(name) is value and vars(flambeau).get(name) is not value
    if owner is flambeau.Tensor or in_python:
        return f"{library_name()}.Tensor.{name}"
    home = _home(value, name)
    if home is not None:
        return f"{home}.{name}"
    if getattr(operator, name, None) is value:
        return f"operator.{name}"
    module = getattr(value, "__module__", None) or "builtins"
    if name == "<lambda>":
        holder = sys.modules.get(module)
        name = next((key for key, held in vars(holder).items() if held is value), "_lambda_") if holder else "_lambda_"
    return f"{module}.{name}"


def importable(value: Any) -> tuple[str, str] | None:
    """(module, name) from which a pickle can take a value; None for what has no such place."""
    short = getattr(value, "__name__", "")
    if getattr(operator, short, None) is value:
        return "operator", short
    if getattr(value, "__objclass__", None) is flambeau.Tensor:
        return f"{library_name()}", f"Tensor.{value.__name__}"
    module: Any = getattr(value, "__module__", None)
    name: Any = getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return None
    holder: Any = sys.modules.get(module)
    for part in name.split("."):
        holder = getattr(holder, part, None)
    return (module, name) if holder is value else None


def pretty_type(kind: Any) -> str:
    """A type as the text of a graph says it.

    >>> import flambeau as fl
    >>> pretty_type(int), pretty_type(fl.Tensor), pretty_type(list[int])
    ('int', 'flambeau.Tensor', 'list[int]')
    """
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        if kind is flambeau.Tensor:
            return f"{library_name()}.Tensor"
        return f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)


class GlobalNames:
    """The names that one piece of generated code uses, and what they mean."""

    def __init__(self, create_name: Callable[[str, Any], str]) -> None:
        self._create_name = create_name
        self.values: dict[str, Any] = {}

    def add(self, hint: str, value: Any) -> str:
        """The name of a value in the code: a path below the library's own name, or a name of its own for anything else."""
        root = library_name()
        if hint.startswith(f"{root}.") and not hint.startswith(f"{root}.Tensor."):
            self.values[root] = library_module()
            return hint
        name = hint.removeprefix("builtins.").replace("operator.", "_operator.", 1) if hint.startswith(("builtins.", "operator.")) else hint
        normal = name.replace(".", "_")
        if self.values.get(normal, GlobalNames) is value:
            return normal
        name = self._create_name(normal, value if value.__hash__ else None)
        self.values[name] = value
        return name

    def function(self, value: Callable[..., Any]) -> str:
        """The name of a function or class in the code."""
        return self.add(function_name(value), value)

    def type(self, kind: Any) -> str:
        """An annotation in the code."""
        if kind is None or kind is type(None):
            return "NoneType" if kind is not None else "None"
        if kind is ...:
            return "..."
        if isinstance(kind, (list, tuple)):  # the arguments of a Callable
            return f"[{','.join(map(self.type, kind))}]"
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(kind, types.UnionType):
            return "|".join(map(self.type, inner))
        if origin is not None and origin is not typing.Literal and origin is not typing.Annotated:
            bare = f"typing.{_typing_name(kind, origin)}" if type(kind).__module__ == "typing" else None
            base = self.add(bare, getattr(typing, bare[7:])) if bare else self.type(origin)
            return f"{base}[{','.join(map(self.type, inner))}]" if inner else base
        return self.add(pretty_type(kind), kind)


def _typing_name(kind: Any, origin: Any) -> str:
    if origin is typing.Union:
        return "Union"
    return str(getattr(kind, "_name", None) or getattr(origin, "__name__", "Any"))


def is_builtin(name: str) -> bool:
    """Whether Python knows the name by itself."""
    return hasattr(builtins, name)
