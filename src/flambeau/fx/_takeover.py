"""While a program is traced, functions of this library that are written in Python are recorded as one call.

Native functions look for `__torch_function__` among their arguments themselves. A function in Python does not (`flambeau._whole_calls`
has it do so for subclasses), and would look at the shape of a proxy before it calls a native one. So for the time of a trace (and for as
long as there are proxies of a graph that a program writes by hand) its code is replaced by a look at the arguments:

    F.dropout(x, 0.1)  -->  a Proxy among them?  --yes-->  _C.call_override(F.dropout, (x,), {"p": 0.1, ...})     as native ones do
                                                 --no--->  what it was

The function object stays the same, so that `from torch.nn.functional import relu` and `self.act = F.relu` are met, too; another thread
that calls it gets what it always got.

Arguments that have defaults are recorded by name, and all of them, where PyTorch's function is written in Python and so does the same.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import _C, _whole_calls

__all__ = ["functions_recorded_whole", "record_whole_while"]

_NOT_RECORDED = frozenset(("is_tensor", "typename"))  # questions that a proxy answers as any object does

_lock = threading.RLock()
_tracing = 0  # traces that run, and tracers of graphs that programs write by hand
_replaced = _busy = False


def _has_proxy(values: Any) -> bool:
    from flambeau.fx.proxy import Proxy

    for value in values:
        if isinstance(value, Proxy) or (isinstance(value, (tuple, list)) and any(isinstance(x, Proxy) for x in value)):
            return True
    return False


def _entry(function: types.FunctionType) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """What a call does while its code is replaced."""
    original = _whole_calls.as_it_was(function)
    named = _whole_calls.names_arguments(function)

    inner: Any = inspect.unwrap(function)  # whose parameters they are, where the function is decorated
    spelled = original if inner is function else inner
    open_at = spelled.__code__.co_argcount if spelled.__code__.co_flags & inspect.CO_VARARGS else None

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if open_at is not None and len(args) == open_at + 1 and isinstance(args[-1], (tuple, list)):
            args = (*args[:-1], *args[-1])  # einsum("ij->i", [x]) is einsum("ij->i", x)
        if not _has_proxy(args) and not _has_proxy(kwargs.values()):
            return original(*args, **kwargs)
        if named:
            args, kwargs = _whole_calls.by_name(inspect.signature(spelled), args, kwargs)
        return _C.call_override(function, args, kwargs)

    return enter


_MARK = "flambeau.fx: what is called instead"


def _code_that_calls(function: types.FunctionType) -> types.CodeType:
    """Code for the function that calls its entry with all arguments."""
    lines = ["def call(*args, **kwargs):", f"    enter = {_MARK!r}", "    return enter(args, kwargs)"]
    return _whole_calls.code_that_runs(lines, function, {_MARK: _entry(function)})


def _spaces() -> Iterator[Any]:
    yield flambeau
    yield from (flambeau.nn.functional, flambeau.linalg, flambeau.fft, flambeau.special)


def _candidates() -> Iterator[types.FunctionType]:
    for name, home in vars(flambeau)["_LAZY_NAMES"].items():
        if home.startswith("_"):
            getattr(flambeau, name)  # which is then one of the names below
    for space in _spaces():
        for name, value in list(vars(space).items()):
            mine = isinstance(value, types.FunctionType) and (value.__module__ or "").partition(".")[0] in ("flambeau", "torch")
            if mine and (not name.startswith("_") or name == "_assert") and name not in _NOT_RECORDED:
                yield value
    for name, value in vars(flambeau.Tensor).items():
        if isinstance(value, types.FunctionType) and not name.startswith("__"):
            yield value


@functools.cache
def _replacements() -> list[tuple[types.FunctionType, types.CodeType]]:
    """(function, the code that looks for proxies); made at the first trace."""
    unique = {id(function): function for function in _candidates() if _whole_calls.own_code(function).co_varnames}
    return [(function, _code_that_calls(function)) for function in unique.values()]


def _change(by: int) -> None:
    """More or fewer who trace. The end of one may be noticed in the middle of this, by the collector in this very thread."""
    global _tracing, _busy, _replaced
    with _lock:
        _tracing += by
        if _busy:
            return
        _busy = True
        try:
            while _replaced != (_tracing > 0):
                _replaced = _tracing > 0
                for function, looking in _replacements():
                    function.__code__ = looking if _replaced else _whole_calls.resting_code(function)
        finally:
            _busy = False


def record_whole_while(owner: Any) -> None:
    """Functions in Python are recorded as one call for as long as `owner`, a tracer, lives."""
    _change(1)
    weakref.finalize(owner, _change, -1).atexit = False


@contextlib.contextmanager
def functions_recorded_whole() -> Iterator[None]:
    """A region in which functions in Python are recorded as one call; regions of several threads and inside of each other are one."""
    _change(1)
    try:
        yield
    finally:
        _change(-1)
