"""Tensor subclasses and other libraries' objects in place of tensors, and modes: PyTorch's `__torch_function__` protocol.

A type with a `__torch_function__(cls, func, types, args=(), kwargs=None)` is called in place of every native function, method,
operator, index and attribute that gets an object of it; `func` is what was called. `Tensor` has one, which computes and keeps
the subclass, so that results of a subclass are of the subclass. Functions that are written in Python are taken over as a whole,
too, once there is a subclass with a `__torch_function__` of its own or a mode (`flambeau._whole_calls`).
The protocol is NumPy's NEP 18 for tensors.

>>> import flambeau as fl
>>> class Logged(fl.Tensor):
...     @classmethod
...     def __torch_function__(cls, func, types, args=(), kwargs=None):
...         print(func.__name__)
...         return super().__torch_function__(func, types, args, kwargs)
>>> x = fl.ones(2).as_subclass(Logged)
>>> y = x + 1
add
>>> type(y).__name__
'Logged'
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import flambeau
from flambeau import _C, _tensor, _whole_calls
from flambeau._C import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class DisableTorchFunctionSubclass(_C.held):
    """A region in which subclasses are taken as plain tensors; modes still see every call."""

    def __new__(cls) -> DisableTorchFunctionSubclass:
        return super().__new__(cls, _C.set_override_flags, True, None)


class DisableTorchFunction(_C.held):
    """A region in which neither subclasses nor modes take calls over."""

    def __new__(cls) -> DisableTorchFunction:
        return super().__new__(cls, _C.set_override_flags, True, False)


# ---------------------------------------------------------------- functions in Python


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an object among them takes calls over."""
    return _C.has_override(*relevant_args)


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of its arguments."""
    return _C.has_override(*args)


def has_torch_function_unary(arg: Any) -> bool:
    """`has_torch_function` of one argument."""
    return _C.has_override(arg)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the `__torch_function__` of one of `relevant_args` makes of a call; for functions that are written in Python.

    Raises:
        TypeError: none of those asked takes the call.
    """
    relevant = tuple(relevant_args)
    given = [*args, *kwargs.values()]
    in_a_mode = _C.has_override(None)
    if in_a_mode or (_C.has_override(*given) and all(any(x is y for y in given) for x in relevant if _C.has_override(x))):
        return _C.call_override(public_api, args, kwargs)
    takers: list[Any] = []  # one for each type, subclasses first
    for x in relevant:
        if hasattr(type(x), "__torch_function__") and all(type(x) is not type(y) for y in takers):
            before = [i for i, y in enumerate(takers) if issubclass(type(x), type(y))]
            takers.insert(before[0] if before else len(takers), x)
    types = tuple(type(x) for x in takers)
    for x in takers:
        result = type(x).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in types) or "none"
    raise TypeError(f"{resolve_name(public_api) or public_api}: no __torch_function__ takes it; asked were {names}")


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function in Python which arguments may take over; `dispatcher` returns these from the call's.

    >>> import flambeau as fl
    >>> @fl.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x + x
    >>> double(fl.ones(2))
    tensor([2., 2.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if _C.has_override(*dispatcher(*args, **kwargs)):
                return _C.call_override(wrapped, args, kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# ---------------------------------------------------------------- modes

_modes = threading.local()


def _stack() -> list[TorchFunctionMode]:
    stack: list[TorchFunctionMode] = _modes.__dict__.setdefault("stack", [])
    return stack


class TorchFunctionMode:
    """A region in which every native call goes to `self.__torch_function__(func, types, args, kwargs)` first.

    Inside of it the mode is off, so that it may compute. Regions nest, the innermost is asked first, and `NotImplemented`
    passes the call on to the subclasses among its arguments.

    >>> import flambeau as fl
    >>> class Count(fl.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     y = fl.ones(2) * 2
    >>> count.calls
    2
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}: a mode defines __torch_function__(self, func, types, args, kwargs)"
        )

    def __enter__(self) -> TorchFunctionMode:
        _whole_calls.turn_on_for_modes()
        _stack().append(self)
        _mode_is(True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack = _stack()
        stack.pop()
        _mode_is(bool(stack))


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls what was called."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _mode_is(on: bool) -> None:
    _C.set_override_flags(None, on)


def _run_mode(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    stack = _stack()
    mode = stack.pop()
    _mode_is(bool(stack))
    try:
        return mode.__torch_function__(func, types, args, kwargs)
    finally:
        stack.append(mode)
        _mode_is(True)


# ---------------------------------------------------------------- names


def _namespaces() -> Iterable[tuple[str, Any]]:
    yield _tensor.library, flambeau
    yield f"{_tensor.library}.nn.functional", flambeau.nn.functional
    for name in ("linalg", "fft", "special"):
        yield f"{_tensor.library}.{name}", getattr(flambeau, name)


@functools.cache
def _public(name: str) -> Callable[..., Any]:
    """What users call the native op: the public function where that is the op, or only adds arguments to it."""
    native: Callable[..., Any] = getattr(_C.ops, name)
    for _, space in _namespaces():
        found = getattr(space, name, None)
        if found is not None and inspect.unwrap(found) is native:
            return found  # type: ignore[no-any-return]
    return native


# What is no call of a tensor's: how Python finds attributes, and the way out of a subclass.
_NEVER_TAKEN = ("__dict__", "__weakref__", "__setattr__", "__delattr__", "__hash__", "__getstate__", "as_subclass")


def is_tensor_like(inp: Any) -> bool:
    """A Tensor, or an object whose type has a `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Functions that arguments may take over, by the namespace that they are public in; methods under `Tensor`."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for _, space in _namespaces():
        functions = [
            f
            for name, f in sorted(vars(space).items())
            if f is not None and inspect.unwrap(f) is getattr(_C.ops, name, ...)
        ]
        functions += _whole_calls.functions_of(space)
        if functions:
            found[space] = functions
    descriptors = [
        (name, getattr(Tensor, name))
        for name in sorted(vars(Tensor))
        if name not in _NEVER_TAKEN
    ]
    found[Tensor] = [f for _, f in descriptors if inspect.ismethoddescriptor(f)]
    found[Tensor] += [f.__get__ for _, f in descriptors if inspect.isgetsetdescriptor(f)]
    found[Tensor] += [vars(Tensor)[name] for name in _whole_calls.METHODS]
    return found


def _parameters(f: Callable[..., Any]) -> list[inspect.Signature]:
    """The forms of a native function or method, the tensor of a method among their parameters."""
    from flambeau.fx.operator_schemas import get_signature_for_torch_op

    owner = getattr(f, "__self__", None)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if inspect.isgetsetdescriptor(owner):
        return [inspect.Signature([itself])]
    native = inspect.unwrap(f)
    if inspect.ismethoddescriptor(native):
        public = getattr(_C.ops, native.__name__, None)
        found = public and get_signature_for_torch_op(public)
        return found or [inspect.Signature([itself, inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])]
    if inspect.isfunction(native):
        return [inspect.signature(f)]
    return get_signature_for_torch_op(native) or []


def _makes_tensors(f: Callable[..., Any]) -> bool:
    """Whether a function takes no tensor: a mode alone sees its calls."""
    forms = _parameters(f)
    return bool(forms) and all("device" in form.parameters and "input" not in form.parameters for form in forms)


@functools.cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """What a subclass gets the results of as they are, and not as tensors of its class."""
    return {vars(Tensor)[name].__get__ for name in ("_base", "grad")}


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions and methods that arguments can not take over: those that take no tensors, and methods in Python.

    >>> import flambeau as fl
    >>> ignored = fl.overrides.get_ignored_functions()
    >>> fl.Tensor.as_subclass in ignored, fl.zeros in ignored, fl.add in ignored
    (True, True, False)
    """
    taken = {f for functions in get_overridable_functions().values() for f in functions}
    found = {
        f
        for _, space in _namespaces()
        for name, f in vars(space).items()
        if not name.startswith("_") and callable(f) and not inspect.isclass(f) and f not in taken
    }
    found |= {f for f in taken if not inspect.ismethoddescriptor(inspect.unwrap(f)) and _makes_tensors(f)}
    methods = (getattr(Tensor, name) for name in dir(Tensor) if name not in ("__class__", "__doc__"))
    return found | {f for f in methods if callable(f) and f not in taken}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that arguments may take over one with its parameters that returns -1: what tests put in its place.

    >>> import flambeau as fl, inspect
    >>> instead = fl.overrides.get_testing_overrides()[fl.add]
    >>> inspect.signature(instead), instead(1, 2)
    (<Signature (input, other, *, alpha=1)>, -1)
    """
    found = {f for functions in get_overridable_functions().values() for f in functions} - get_ignored_functions()
    return {f: _stand_in(_parameters(f)) for f in found}


def _stand_in(forms: list[inspect.Signature]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        for i, form in enumerate(forms):
            try:
                form.bind(*args, **kwargs)
            except TypeError:
                if i == len(forms) - 1:
                    raise
            else:
                break
        return -1

    if forms:
        stand_in.__signature__ = forms[0]  # type: ignore[attr-defined]
    return stand_in


@functools.cache
def _tensor_functions() -> set[Callable[..., Any]]:
    return set(get_overridable_functions()[Tensor])


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` is a method of Tensor or the `__get__` of one of its attributes."""
    return func in _tensor_functions() or getattr(func, "__name__", "") in (
        "__get__",
        "__set__",
        "__delete__",
    )


def resolve_name(f: Callable[..., Any]) -> str | None:
    """`flambeau.Tensor.add` and the like (under `flambeau run`: `torch.Tensor.add`); None for what arguments can not take over.

    >>> import flambeau as fl
    >>> fl.overrides.resolve_name(fl.softmax), fl.overrides.resolve_name(fl.Tensor.shape.__get__)
    ('flambeau.softmax', 'flambeau.Tensor.shape.__get__')
    """
    owner = getattr(f, "__self__", None)
    if inspect.isgetsetdescriptor(owner):
        return f"{_tensor.library}.Tensor.{owner.__name__}.{f.__name__}"
    name = getattr(f, "__name__", "")
    if f in _tensor_functions():
        return f"{_tensor.library}.Tensor.{name}"
    return next(
        (f"{where}.{name}" for where, space in _namespaces() if getattr(space, name, None) is f),
        None,
    )
