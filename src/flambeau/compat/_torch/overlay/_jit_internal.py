"""`torch._jit_internal`: marks for TorchScript's compiler, which is not here; functions stay the Python that they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from flambeau.futures import Future
from flambeau.jit import (
    FunctionModifiers,
    _marked,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from flambeau.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "FunctionModifiers", "Future", "export", "ignore", "is_scripting", "unused"]

_marks = (_overload, _overload_method)
T = TypeVar("T")


def _copy_to_script_wrapper(fn: T) -> T:
    """The method itself, marked: no scripted module takes it over."""
    return _marked(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def get_torchscript_modifier(fn: Any) -> Any:
    """How a function is marked; None of what is not callable."""
    if not callable(fn):
        return None
    return getattr(getattr(fn, "__func__", fn), "_torchscript_modifier", FunctionModifiers.DEFAULT)


def is_ignored_fn(fn: Any) -> bool:
    """Whether a compiler would leave the function out."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)


def should_drop(fn: Any) -> bool:
    """Whether a compiler would have calls of the function raise."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers._DROP)


def module_has_exports(mod: Any) -> bool:
    """Whether a method of the module is marked as exported."""
    return any(get_torchscript_modifier(getattr(mod, name, None)) == FunctionModifiers.EXPORT for name in dir(mod))


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any], if_false: Callable[..., Any], module_name: str, func_name: str
) -> Callable[..., Any]:
    """A function that calls one of two, by an argument of its call that is True or False."""

    @functools.wraps(if_true if default else if_false)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if asked else if_false)(*args, **kwargs)

    chosen.__name__ = func_name or chosen.__name__
    chosen.__module__ = module_name or chosen.__module__
    return chosen


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """Module and name of a function or class, as TorchScript would write them."""
    name = getattr(obj, "_jit_override_qualname", None)
    return str(name) if name else f"__torch__.{obj.__module__}.{obj.__name__}".replace("__torch__.torch.", "__torch__.")


def is_scripting_or_tracing() -> bool:
    """False."""
    return False
