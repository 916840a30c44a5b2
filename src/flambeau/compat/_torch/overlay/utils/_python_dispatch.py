"""`torch.utils._python_dispatch`: regions and classes of tensors that take over what lies below autograd.

Inside of a TorchDispatchMode each call of a kernel, those of backward included, is handed to its `__torch_dispatch__` as a call of ATen's operator, and so
are views and constructors. What is one kernel here is one call, under ATen's name where it has one (`_dispatched`).

A class of tensors with a `__torch_dispatch__` gets the calls that have a tensor of it among the arguments: Note [Hollow tensors],
csrc/bindings/hollow.h. Modes are asked before classes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau import _C, no_grad
from flambeau._C import Tensor

_here = threading.local()
_NOBODY, _MODES = 0, 2  # who is asked about calls; 1: classes of tensors alone


def _modes() -> list[TorchDispatchMode]:
    """Those that this thread is in and that see calls from here: inside of `__torch_dispatch__` those further out."""
    modes: list[TorchDispatchMode] = _here.__dict__.setdefault("modes", [])
    return modes


def _who(modes: Sequence[Any]) -> int:
    return _MODES if modes else _NOBODY


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
        if not _here.__dict__.get("entered"):
            _here.entered = []
            _C.graph.begin_taking()
        _here.entered.append(_C.held(_C.graph.set_taking, _MODES))
        _here.entered[-1].__enter__()
        _modes().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        modes = _modes()
        for k in reversed(range(len(modes))):  # others may end later though they began later, as in generators
            if modes[k] is self:
                del modes[k]
                break
        _here.entered.pop().__exit__(None, None, None)
        if not _here.entered:
            _C.graph.end_taking()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False: all modes are users'."""
        return False


def _take(taken: Any, of_modes: bool) -> Sequence[Any]:
    """A call, as the recorder hands it on, to modes or to the classes of its arguments: what it returns goes into the call's outputs."""
    from flambeau.compat._torch.overlay.utils._dispatched import as_aten

    before = _here.__dict__.get("call")
    with no_grad():
        call = _here.call = as_aten(taken)
        try:
            if of_modes:
                keeping = any(getattr(mode, "_fl_shares_memory", False) for mode in _modes())
                made = call.run((), {}) if call.func is None else _ask(call.func, call.args, dict(call.kwargs))
                return [_in_place_of_output(y) if keeping else y for y in call.outputs(made)]
            if call.func is None:  # nothing of ATen's, but several of its operators
                return call.outputs(call.run((), {}))
            types = tuple(_dispatching((*call.args, *call.kwargs.values())))  # where a part of it is a plain tensor already, nobody's
            if not types:
                return call.outputs(call.func.overloadpacket._function(*call.args, **call.kwargs))
            return call.outputs(_ask_classes(call.func, types, call.args, dict(call.kwargs)))
        finally:
            _here.call = before


class _Own(Tensor):
    """A result whose memory becomes the output's, which is not written to then. The core does so with tensors of classes that are asked about calls."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _in_place_of_output(y: Any) -> Any:
    if not isinstance(y, Tensor):
        return y
    with _disable_current_modes():
        own = y.as_subclass(_Own)
        own.grad = y  # with a place for a history the object stays behind, and the memory alone goes on
        own.grad = None
    return own


def _ask_classes(func: Any, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    """What the first class that takes the call makes of it."""
    for cls in types:
        result = cls.__torch_dispatch__(func, types, args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    names = ", ".join(cls.__name__ for cls in types)
    raise TypeError(f"{func}: no __torch_dispatch__ of its arguments takes it (no implementation found); they are {names}")


def _dispatching(values: Sequence[Any]) -> list[type]:
    """The classes with a `__torch_dispatch__` that tensors among values have, also in lists; each once."""
    found: list[type] = []
    for x in values:
        if isinstance(x, tuple | list):
            found += [cls for cls in _dispatching(x) if cls not in found]
        elif isinstance(x, Tensor) and type(x) not in found and _dispatches(type(x)):
            above = next((i for i, cls in enumerate(found) if issubclass(type(x), cls)), len(found))
            found.insert(above, type(x))  # subclasses before what they derive from
    return found


def _dispatches(cls: Any) -> bool:
    return cls.__torch_dispatch__ not in (_C.no_torch_dispatch, None)


def _ask(func: Any, args: Any, kwargs: Any) -> Any:
    """What the innermost mode makes of a call; meanwhile it is off."""
    modes = _modes()
    mode = modes.pop()
    try:
        with _C.held(_C.graph.set_taking, _who(modes)):
            return mode.__torch_dispatch__(func, tuple(_dispatching((*args, *kwargs.values()))), args, kwargs)
    finally:
        modes.append(mode)


def called(func: Any, args: Any, kwargs: Any) -> Any:
    """What a call of an operator gives where it is the call that a mode is asked about; otherwise NotImplemented."""
    call = _here.__dict__.get("call")
    if call is None or func is not call.func:
        return NotImplemented
    if _modes():
        return _ask(func, args, kwargs)
    if _dispatching((*args, *kwargs.values())):
        return NotImplemented  # another class's
    return call.run(args, kwargs)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A region in which no mode is on."""
    modes, _here.modes = _modes(), []
    try:
        with _C.held(_C.graph.set_taking, _NOBODY):
            yield modes
    finally:
        _here.modes = modes


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[TorchDispatchMode]:
    """A region in which the innermost mode is off."""
    modes = _modes()
    mode = modes.pop()
    try:
        with _C.held(_C.graph.set_taking, _who(modes)):
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
    """Whether a tensor consists of others, into which `__tensor_flatten__` takes it apart."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    return (
        issubclass(t, Tensor)
        and _dispatches(t)
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A tensor of t's class in which `callback(name, inner)` stands for each tensor that t consists of."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    made = type(t).__tensor_unflatten__(inner, context, size, t.stride() if outer_stride is None else outer_stride)
    if made.shape != size:
        raise RuntimeError(f"transform_subclass: __tensor_unflatten__ of {type(t).__name__} returned shape {tuple(made.shape)}; expected {tuple(size)}")
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """`out`; of an operator that writes in place its first argument, which is what it returns."""
    return args[0] if func._opname.endswith("_") and not func._opname.startswith("__") else out
