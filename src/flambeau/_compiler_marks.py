"""What marks functions for PyTorch's compiler. Python runs wherever something is recorded, so that marks change nothing."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")
switches = types.SimpleNamespace(stance="default")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself: ops in it are recorded as everywhere, with the results of eager mode.

    >>> import flambeau as fl
    >>> @fl.compiler.disable
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3)
    6
    """
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself, which is called each time."""
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False) -> Any:
    """A decorator that returns its function; the original goes on to be called."""
    return lambda fn: fn


def is_dynamo_compiling() -> bool:
    """False: Dynamo is not here."""
    return False


class _Here(threading.local):
    exporting = False


here = _Here()


def is_exporting() -> bool:
    """Whether this thread runs a module that `torch.export` makes a program of."""
    return here.exporting


def reset() -> None:
    """Nothing has to be forgotten."""


_INDUCTOR = "inductor"  # what PyTorch's is called
_backend: Any = _INDUCTOR


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The one way to compile, which has no tags.

    >>> list_backends()
    ['flambeau']
    """
    return ["flambeau"]


def get_default_backend() -> Any:
    """What `set_default_backend` was given last. `compile` looks at no backend: there is one."""
    return _backend


def set_default_backend(backend: Any) -> None:
    """Keeps a backend's name, or the function that it is, for who asks; None forgets it.

    Raises:
        TypeError: neither a string nor a function.
    """
    global _backend
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"set_default_backend: backend is a {type(backend).__name__}; expected a string or a function")
    _backend = _INDUCTOR if backend is None else backend


def cudagraph_mark_step_begin() -> None:
    """There are no CUDA graphs."""


class set_stance:
    """Changes what compiled functions do, of all threads: from where it is called, in a `with` block, or in the function that it decorates.

    Args:
        stance: "force_eager" calls what was compiled as it is, and `is_compiling()` says False in it; with the others compiled functions do
            what they always do, which has eager mode's results.

    Raises:
        RuntimeError: a stance that PyTorch has not.
        NotImplementedError: an error or another backend is asked for, of which there is none.

    >>> import flambeau as fl
    >>> f = fl.compile(lambda: fl.compiler.is_compiling(), mode="lazy")
    >>> with fl.compiler.set_stance("force_eager"):
    ...     inside = f()
    >>> inside, f()
    (False, True)
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance: stance = {stance!r}; expected one of {', '.join(map(repr, _STANCES))}")
        if stance == "fail_on_recompile" or force_backend is not None:
            what = f"stance = {stance!r}" if force_backend is None else f"force_backend = {force_backend!r}"
            raise NotImplementedError(f"set_stance: {what}; what is recorded anew is no error here, and there is one backend")
        self._stance = stance
        self._before = switches.stance
        switches.stance = stance

    def __call__(self, fn: F) -> F:
        switches.stance = self._before

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self._stance):
                return fn(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def __enter__(self) -> None:
        switches.stance = self._stance

    def __exit__(self, *error: object) -> None:
        switches.stance = self._before


def nested_compile_region(fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None) -> Any:
    """The function itself, which is recorded wherever it is called."""
    return fn if fn is not None else lambda f: f
