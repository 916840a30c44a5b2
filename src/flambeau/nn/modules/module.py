"""Hooks of all modules, called before those of the module itself: for profilers and debuggers.

Each function returns a handle whose `remove()` takes the hook out again.

>>> import flambeau as fl
>>> from flambeau.nn.modules.module import register_module_forward_hook
>>> seen = []
>>> with register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__)):
...     _ = fl.nn.Sequential(fl.nn.Linear(2, 2), fl.nn.ReLU())(fl.ones(2))
>>> seen
['Linear', 'ReLU', 'Sequential']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._handles import RemovableHandle
from flambeau.nn._hooks import EVERYWHERE, add_everywhere
from flambeau.nn.module import Module

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip

# PyTorch's names of the tables, for programs that look into them.
_global_backward_pre_hooks = EVERYWHERE["_backward_pre_hooks"]
_global_backward_hooks = EVERYWHERE["_backward_hooks"]
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks = EVERYWHERE["_forward_pre_hooks"]
_global_forward_hooks = EVERYWHERE["_forward_hooks"]
_global_forward_hooks_always_called = EVERYWHERE["_forward_hooks_always_called"]
_global_forward_hooks_with_kwargs = EVERYWHERE["_forward_hooks_with_kwargs"]
_global_parameter_registration_hooks = EVERYWHERE["parameter"]
_global_buffer_registration_hooks = EVERYWHERE["buffer"]
_global_module_registration_hooks = EVERYWHERE["module"]


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, args)` before the `forward` of every module; it may return other arguments."""
    return add_everywhere("_forward_pre_hooks", hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Calls `hook(module, args, output)` (`with_kwargs`: `hook(module, args, kwargs, output)`) after the `forward` of every module.

    It may return another output. `always_call` runs it on an error, too.
    """
    marks = ["_forward_hooks_with_kwargs"] * with_kwargs + ["_forward_hooks_always_called"] * always_call
    return add_everywhere("_forward_hooks", hook, *marks)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_output)` before the backward of every module; it may return other gradients."""
    return add_everywhere("_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` after the backward of every module; it may return another `grad_input`.

    Raises:
        RuntimeError: there was a hook of `register_module_backward_hook`; there is one kind of all modules.
    """
    _of_one_kind(full=True)
    return add_everywhere("_backward_hooks", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older name of `register_module_full_backward_hook`: only the full hooks exist.

    Raises:
        RuntimeError: there was a hook of `register_module_full_backward_hook`; there is one kind of all modules.
    """
    _of_one_kind(full=False)
    return add_everywhere("_backward_hooks", hook)


def _of_one_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    names = ("register_module_backward_hook", "register_module_full_backward_hook")
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(f"{names[full]}: all modules have a hook of {names[not full]}; use {names[True]} for both")
    _global_is_full_backward_hook = full


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` when a module gets a parameter; what it returns, unless None, is registered instead."""
    return add_everywhere("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` when a module gets a buffer; what it returns, unless None, is registered instead."""
    return add_everywhere("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, child)` when a module gets a child; what it returns, unless None, is registered instead."""
    return add_everywhere("module", hook)
