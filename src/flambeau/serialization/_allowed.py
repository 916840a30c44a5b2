"""Classes and functions of the user that pickles may name: `add_safe_globals` and its kin, with PyTorch's names and meaning."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from flambeau import _tensor
from flambeau.compat._torch.names import home_of

Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

_NEVER = ("sys", "os", "posix", "nt", "subprocess", "shutil")
_allowed: list[Allowed] = []


def _named(entry: Any) -> tuple[str, Any]:
    if isinstance(entry, tuple):
        if len(entry) != 2 or type(entry[1]) is not str or not callable(entry[0]):
            raise TypeError(f"add_safe_globals: {entry!r}; expected a class or function, or (class or function, its name in the file)")
        what, name = entry
    elif callable(entry) and isinstance(getattr(entry, "__qualname__", None), str) and getattr(entry, "__module__", None):
        what, name = entry, f"{entry.__module__}.{entry.__qualname__}"
    else:
        raise TypeError(f"add_safe_globals: {entry!r}; expected a class or function, or (class or function, its name in the file)")
    for refused in (name, getattr(what, "__module__", None) or ""):
        if refused.partition(".")[0] in _NEVER:
            raise ValueError(f"add_safe_globals: {name} is of module {refused.partition('.')[0]}, which no file may use")
    return name, what


def add_safe_globals(safe_globals: Iterable[Allowed]) -> None:
    """Lets pickles name these classes and functions, which are then called as the file says: allow what you know and trust.

    Args:
        safe_globals: classes or functions, or tuples of one and the full name that a file has for it.

    Raises:
        TypeError: something that is neither.
        ValueError: what is of `os`, `sys` and the like, which is never allowed.

    >>> import argparse
    >>> from flambeau import serialization
    >>> serialization.add_safe_globals([argparse.Namespace])
    >>> serialization.get_safe_globals()
    [<class 'argparse.Namespace'>]
    >>> serialization.clear_safe_globals()
    """
    new = list(safe_globals)
    for entry in new:
        _named(entry)
    _allowed.extend(entry for entry in new if entry not in _allowed)


def get_safe_globals() -> list[Allowed]:
    """What `add_safe_globals` has allowed."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Allows nothing any more but what loading knows by itself."""
    _allowed.clear()


class safe_globals:
    """Allows classes and functions inside of a `with` block: `add_safe_globals`, taken back at its end.

    >>> from fractions import Fraction
    >>> from flambeau import serialization
    >>> with serialization.safe_globals([Fraction]):
    ...     len(serialization.get_safe_globals())
    1
    >>> serialization.get_safe_globals()
    []
    """

    def __init__(self, safe_globals: Iterable[Allowed]) -> None:
        self.safe_globals = list(safe_globals)
        self._before: list[list[Allowed]] = []

    def __enter__(self) -> None:
        self._before.append(get_safe_globals())
        add_safe_globals(self.safe_globals)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _allowed[:] = self._before.pop()


_with_modules: ContextVar[bool] = ContextVar("flambeau_load_modules", default=False)


@contextlib.contextmanager
def modules_allowed() -> Iterator[None]:
    """Inside, for the calling thread, a file may name classes of modules which the program has imported, the library's own optimizers,
    schedules, datasets and distributions, and functions of `nn.functional`.

    Instances are made without `__init__` and get their attributes; nothing is imported.
    """
    token = _with_modules.set(True)
    try:
        yield
    finally:
        _with_modules.reset(token)


def found_by_name(kind: type) -> bool:
    """Whether a class is what its module, or a class in there, has under its name, so that a file can name it."""
    home = sys.modules.get(kind.__module__)
    if home is None:  # a place of PyTorch's that nobody has looked into yet
        try:
            home = importlib.import_module(kind.__module__)
        except ImportError:
            return False
    found: Any = home
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def functional_names() -> dict[int, str]:
    """Functions of `nn.functional`, by their identity."""
    from flambeau.nn import functional as F

    return {id(value): f"flambeau.nn.functional.{name}" for name, value in vars(F).items() if not name.startswith("_") and callable(value)}


def names_of(value: Any) -> Iterator[str]:
    """Where a class or function is found: in its module, and, of the library's own, where PyTorch has it."""
    yield f"{value.__module__}.{value.__qualname__}"
    if (place := home_of(value.__module__, value.__name__)) is not None:
        yield f"{place}.{value.__qualname__}"


def _below(kind: Any) -> Iterator[Any]:
    """A class and those derived from it that can be found by their names."""
    kinds = [kind]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if found_by_name(kind):
            yield kind


def _modules() -> dict[str, Any]:
    from flambeau.nn import functional as F
    from flambeau.nn.module import Module

    found = {name: kind for kind in _below(Module) for name in names_of(kind)}
    for name in functional_names().values():
        function = getattr(F, name.rpartition(".")[2])
        found |= dict.fromkeys((name, *names_of(function), f"torch.nn.functional.{function.__name__}"), function)
    for last in _OF_ITS_CORE:  # what PyTorch's nn.functional only passes on is found where it lies
        found[f"torch._C._nn.{last}"] = getattr(F, last.replace("log_sig", "logsig"))
    return found


_OF_ITS_CORE = (
    "avg_pool2d", "avg_pool3d", "gelu", "linear", "log_sigmoid", "one_hot", "scaled_dot_product_attention", "softplus", "softshrink",
    "elu_", "hardtanh_", "leaky_relu_",
)  # fmt: skip
_LIBRARY = tuple(f"{root}.{part}." for root in ("torch", "flambeau") for part in ("optim", "utils.data", "distributions"))


@functools.cache
def _of_the_library() -> dict[str, Any]:
    from flambeau import distributions, optim
    from flambeau.optim.lr_scheduler import LRScheduler
    from flambeau.utils import data

    bases = (optim.Optimizer, LRScheduler, data.Dataset, distributions.Distribution)
    kinds = [kind for base in bases for kind in _below(base) if kind.__module__.startswith(("flambeau.", f"{_tensor.library}."))]
    return {name: kind for kind in kinds for name in names_of(kind)}


def library_class(name: str) -> Any:
    """A class of optimizers, schedules, datasets or distributions that is the library's own, by its name here or in PyTorch, or None."""
    return _of_the_library().get(name) if name.startswith(_LIBRARY) else None


def user_names() -> dict[str, Any]:
    """What the user allows, by its name in files."""
    return dict(_named(entry) for entry in _allowed)


def are_modules_allowed() -> bool:
    return _with_modules.get()


def module_names() -> dict[str, Any]:
    """Classes and functions that whole modules need, by name."""
    return _modules() if _with_modules.get() else {}


def is_never_allowed(name: str) -> bool:
    return name.partition(".")[0] in _NEVER
