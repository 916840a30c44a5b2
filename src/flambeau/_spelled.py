"""Keywords that PyTorch's functions take beside the names of its documentation: functions in Python take them, too.

Its schemas name some arguments otherwise (`input` for the `A` of `linalg`), and every native function of its takes NumPy's names for four
arguments. Native functions here take NumPy's by their parser; those in Python by `spelled`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau._no_tensor import CONFUSED, explain

F = TypeVar("F", bound=Callable[..., Any])

# What an argument may be called, too: NumPy's names, and for the first tensor the schemas'.
_NUMPY = {"dim": ("axis",), "keepdim": ("keepdims",), "other": ("x2",)}
_FIRST = ("input", "x", "a", "x1")


def _other_names(function: Callable[..., Any]) -> dict[str, str]:
    """What arguments may be called, too -> what they are called."""
    plain: Any = function
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    code = plain.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {name: ours for ours in parameters for name in _NUMPY.get(ours, ())}
    if code.co_argcount and "Tensor" in str(plain.__annotations__.get(parameters[0])):
        names.update(dict.fromkeys(_FIRST, parameters[0]))
    return {name: ours for name, ours in names.items() if name not in parameters}


def spelled(**names: str) -> Callable[[F], F]:
    """Decorator: takes NumPy's names for `dim`, `keepdim`, `other` and the first tensor, and `name=ours` the keyword `name` for `ours`.

    >>> @spelled(by="factor")
    ... def scaled(x, factor, dim=0):
    ...     return factor * x, dim
    >>> scaled(2, by=3), scaled(2, factor=3, axis=1)
    ((6, 0), (6, 1))
    """

    def decorate(function: F) -> F:
        every = {**_other_names(function), **names}
        others = every.keys()

        def renamed(kwargs: dict[str, Any]) -> dict[str, Any]:
            for name in others & kwargs.keys():
                if every[name] in kwargs:
                    raise TypeError(f"{function.__name__}: got both {name} and {every[name]}, which are one argument")
                kwargs[every[name]] = kwargs.pop(name)
            return kwargs

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if kwargs and not others.isdisjoint(kwargs):
                kwargs = renamed(kwargs)
            try:
                return function(*args, **kwargs)
            except CONFUSED as error:
                explain(error, function, args, kwargs)
                raise

        return wrapper  # type: ignore[return-value]

    return decorate
