"""Parameters of the program that is traced: a placeholder for each, and what `concrete_args` makes of some.

A program with `*args` or keyword-only arguments is called with one value for each name of its code, so that `args` is a proxy, too. For
that its code is taken without the marks of these (`_all_positional`).
"""

from __future__ import annotations

import inspect
import operator
import types
import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._symbolic import _assert
from flambeau.fx._targets import is_ours
from flambeau.fx.node import has_side_effect
from flambeau.fx.proxy import TraceError


class PHBase:
    """The mark in `concrete_args` of an argument that stays one."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


@has_side_effect
def _assert_is_none(value: Any, msg: str) -> None:
    """What a graph does with an argument that was None when it was traced."""
    assert value is None, msg


# The graph's text and code name them where PyTorch has them.
PHBase.__module__ = _assert_is_none.__module__ = "flambeau.fx._symbolic_trace"


def parameters_of(
    tracer: Any, function: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None
) -> tuple[Callable[..., Any], list[Any]]:
    """(what is to be called, with what)."""
    inner = _with_code(inspect.unwrap(function), function)
    code: types.CodeType = inner.__code__
    signature = inspect.signature(inner)
    named = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:named])
    args: list[Any] = []
    if isinstance(function, types.MethodType):
        args, names = [function.__self__], names[1:]
        function = function.__func__
    elif is_module:
        if not names:
            raise TypeError(f"Tracer.trace: {code.co_name} has no parameter for the module (self); define it as a method")
        args, names = [tracer.root], names[1:]
    known = _known(concrete_args, names)
    for name in names:
        args.append(_parameter(tracer, name, known, signature, annotation(inner, name)))
    last = named
    stars = 0
    for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            args.append(tracer.create_proxy("placeholder", f"{star}{code.co_varnames[last]}", (), {}))
            last, stars = last + 1, stars + 1
    if not stars and not code.co_kwonlyargcount:
        return function, args
    if inner is not function and not isinstance(function, types.FunctionType) or inspect.unwrap(function) is not function:
        return _call_by_kind(function, signature, stars), args
    assert isinstance(function, types.FunctionType)
    return _all_positional(function, len(args)), args


def annotation(function: Any, name: str) -> Any:
    """The type that a function says of a parameter or of its result ("return"). This library's are texts, which are read."""
    kind = getattr(function, "__annotations__", {}).get(name)
    if isinstance(kind, str) and is_ours(getattr(function, "__module__", None) or ""):
        try:
            kind = eval(kind, getattr(function, "__globals__", {}))
        except NameError:  # a name for type checkers alone
            return None
    return None if kind is Any else kind


def _with_code(inner: Any, function: Any) -> Any:
    if isinstance(inner, types.MethodType):
        inner = inner.__func__
    if not hasattr(inner, "__code__"):
        called = vars(type(inner)).get("__call__")
        if not hasattr(called, "__code__"):
            name = getattr(function, "__name__", type(function).__name__)
            raise TypeError(
                f"Tracer.trace: {name} is not written in Python, so that its parameters are not known; trace a function that calls it"
            )
        return called
    return inner


def _known(concrete_args: Any, names: list[str]) -> dict[str, Any]:
    if concrete_args is None:
        return {}
    if isinstance(concrete_args, tuple):
        if len(concrete_args) != len(names):
            wanted = f"{len(names)}, one for each of {', '.join(names)}"
            raise ValueError(f"Tracer.trace: concrete_args has {len(concrete_args)} values; expected {wanted}")
        return dict(zip(names, concrete_args, strict=True))
    unknown = [name for name in concrete_args if name not in names]
    if unknown:
        said, wanted = ", ".join(map(repr, unknown)), ", ".join(names) or "none"
        raise ValueError(f"Tracer.trace: concrete_args has {said}; expected names among {wanted}")
    return dict(concrete_args)


def _parameter(tracer: Any, name: str, known: dict[str, Any], signature: inspect.Signature, kind: Any) -> Any:
    parameter = signature.parameters.get(name)
    default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
    if name not in known:
        return tracer.create_proxy("placeholder", name, default, {}, type_expr=kind)
    return _concrete(tracer, name, known[name], default)


def _concrete(tracer: Any, name: str, value: Any, default: tuple[Any, ...]) -> Any:
    """An argument that is known: it stays a parameter, which is checked to have that value."""
    _refuse_holes(name, value)
    kept = tracer.create_proxy("placeholder", f"{name}_1", default, {})
    if isinstance(value, PHBase):
        return kept
    text = f"{name} has been specialized to have value {value} but got another value"
    if value is None:
        tracer.create_proxy("call_function", _assert_is_none, (kept, text), {})
    elif isinstance(value, (bool, int, float, str, flambeau.dtype)):
        tracer.create_proxy("call_function", _assert, (operator.eq(kept, value), text), {})
    else:
        warnings.warn(
            f"fx: the graph does not check that {name} is the {type(value).__name__} of concrete_args; it is used whatever a call says",
            stacklevel=6,
        )
    return value


def _refuse_holes(name: str, value: Any) -> None:
    inside = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (tuple, list)) else []
    if any(isinstance(x, PHBase) for x in inside):
        raise NotImplementedError(
            f"Tracer.trace: concrete_args[{name!r}] is a {type(value).__name__} with PH in it; only whole arguments can stay open: "
            f"leave {name!r} out, or trace a function that takes its parts as arguments of their own"
        )


def _call_by_kind(function: Callable[..., Any], signature: inspect.Signature, stars: int) -> Callable[..., Any]:
    """A decorated function, whose code is not the one that was looked at: keyword-only arguments are given by name."""
    if stars:
        raise TraceError(
            f"fx: {getattr(function, '__name__', function)} is decorated and takes *args or **kwargs, whose number is not known; "
            "trace the function itself, or one with named parameters"
        )
    only = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]

    def call(*args: Any) -> Any:
        plain = len(args) - len(only)
        return function(*args[:plain], **dict(zip(only, args[plain:], strict=True)))

    return call


def _all_positional(function: types.FunctionType, count: int) -> types.FunctionType:
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return types.FunctionType(plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
