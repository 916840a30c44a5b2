"""`torch.utils._python_dispatch`: regions that take over what lies below autograd.

Inside of a TorchDispatchMode each call of a kernel, those of backward included, is handed to its `__torch_dispatch__` as a call of ATen's operator. Views
compute nothing and are not seen; what is one kernel here is one call, under ATen's name where it has one (`_dispatched`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from flambeau import _C, no_grad
from flambeau._C import Tensor

_here = threading.local()


def _modes() -> list[TorchDispatchMode]:
    """Those that this thread is in and that see calls from here: inside of `__torch_dispatch__` those further out."""
    modes: list[TorchDispatchMode] = _here.__dict__.setdefault("modes", [])
    return modes


class TorchDispatchMode:
    """A region in which what lies below autograd is computed by `self.__torch_dispatch__(func, types, args, kwargs)`.

    `func` is an operator such as `torch.ops.aten.mul.Tensor`; calling it with its arguments, or others of the same shapes, computes. What is returned becomes
    the call's result, so its shape and type have to be those that are known already. Inside of it the mode is off. Regions nest, and the innermost is asked first.
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError(f"TorchDispatchMode: _dispatch_key = {_dispatch_key!r}; expected None: there is one level below autograd")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: expected a method __torch_dispatch__(self, func, types, args, kwargs)")

    def __enter__(self) -> Any:
        entered = _here.__dict__.get("entered", 0)
        if entered == 0:
            _C.graph.begin_taking(_take)
        _here.entered = entered + 1
        _modes().append(self)
        _C.graph.set_taking(True)
        return self

    def __exit__(self, *exc: object) -> None:
        modes = _modes()
        for k in reversed(range(len(modes))):  # others may end later though they began later, as in generators
            if modes[k] is self:
                del modes[k]
                break
        _here.entered -= 1
        if _here.entered == 0:
            _C.graph.end_taking()
        else:
            _C.graph.set_taking(bool(modes))

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False: all modes are users'."""
        return False


def _take(taken: Any) -> list[Tensor]:
    """A call of a kernel, as the recorder hands it on: what it returns goes into the call's outputs."""
    from flambeau.compat._torch.overlay.utils._dispatched import as_aten

    before = _here.__dict__.get("call")
    with no_grad():
        call = _here.call = as_aten(taken)
        try:
            return call.outputs(_ask(call.func, call.args, dict(call.kwargs)))
        finally:
            _here.call = before


def _ask(func: Any, args: Any, kwargs: Any) -> Any:
    """What the innermost mode makes of a call; meanwhile it is off."""
    modes = _modes()
    mode = modes.pop()
    try:
        with _C.held(_C.graph.set_taking, bool(modes)):
            return mode.__torch_dispatch__(func, (), args, kwargs)
    finally:
        modes.append(mode)


def called(func: Any, args: Any, kwargs: Any) -> Any:
    """What a call of an operator gives where it is the call that a mode is asked about; otherwise NotImplemented."""
    call = _here.__dict__.get("call")
    if call is None or func is not call.func:
        return NotImplemented
    if _modes():
        return _ask(func, args, kwargs)
    return call.run(args, kwargs)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A region in which no mode is on."""
    modes, _here.modes = _modes(), []
    try:
        with _C.held(_C.graph.set_taking, False):
            yield modes
    finally:
        _here.modes = modes


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[TorchDispatchMode]:
    """A region in which the innermost mode is off."""
    modes = _modes()
    mode = modes.pop()
    try:
        with _C.held(_C.graph.set_taking, bool(modes)):
            yield mode
    finally:
        modes.append(mode)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode sees calls from here."""
    return bool(_modes())


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """The same."""
    return bool(_modes())


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode, or None."""
    modes = _modes()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """All of them, the outermost first."""
    return list(_modes())


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: no tensor consists of others by `__tensor_flatten__` and `__torch_dispatch__`."""
    return False


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """`out`; of an operator that writes in place its first argument, which is what it returns."""
    return args[0] if func._opname.endswith("_") and not func._opname.startswith("__") else out
