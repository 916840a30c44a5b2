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
from flambeau.nn._hooks import add_everywhere
from flambeau.nn.module import Module

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip


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
    """Calls `hook(module, grad_input, grad_output)` after the backward of every module; it may return another `grad_input`."""
    return add_everywhere("_backward_hooks", hook)


# The older spelling; only the full hooks exist, so both names mean them.
register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` when a module gets a parameter; what it returns, unless None, is registered instead."""
    return add_everywhere("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` when a module gets a buffer; what it returns, unless None, is registered instead."""
    return add_everywhere("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, child)` when a module gets a child; what it returns, unless None, is registered instead."""
    return add_everywhere("module", hook)
