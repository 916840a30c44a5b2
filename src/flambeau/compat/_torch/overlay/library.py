"""What `torch.library` does with operators of extensions that are not loaded: what is said of them is noted. The rest is `flambeau.library`."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["impl_abstract", "triton_op"]

_waiting: dict[tuple[str, str], Any] = {}  # (kind, operator) -> what was registered before the operator


def _registrar(kind: str) -> Any:
    def register(op: Any, *args: Any, **kwargs: Any) -> Any:
        from flambeau.compat._torch.overlay.ops import exists

        if not isinstance(op, str) or exists(op):
            return getattr(importlib.import_module("flambeau.library"), kind)(op, *args, **kwargs)

        def note(func: Any) -> Any:
            _waiting[kind, op] = func
            return func

        functions = [a for a in args if callable(a)]
        return note(functions[0]) if functions else note

    register.__name__ = register.__qualname__ = kind
    register.__doc__ = f"`{kind}` of an operator; one of an extension that is not loaded is noted, and calling it says that it is missing."
    return register


for _kind in ("register_fake", "register_autograd", "register_vmap", "register_kernel", "register_autocast"):
    globals()[_kind] = _registrar(_kind)


def impl_abstract(qualname: str, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """`register_fake`, by its older name."""
    warnings.warn("torch.library.impl_abstract was renamed to torch.library.register_fake", FutureWarning, stacklevel=2)
    register = globals()["register_fake"]
    return register(qualname, lib=lib) if func is None else register(qualname, func, lib=lib)


def triton_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None) -> Any:
    """An op whose function is made of tensors' ops alone (and, on a GPU, of Triton's kernels); also a decorator.

    It is a `custom_op` that needs no `register_fake`: shapes and types of its results come from running the function on the meta device.
    """
    from flambeau.library import custom_op

    def make(function: Callable[..., Any]) -> Any:
        op = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        op.register_fake(function)
        return op

    return make if fn is None else make(fn)
