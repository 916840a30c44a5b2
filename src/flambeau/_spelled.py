"""PyTorch's schemas name some arguments otherwise than its documentation: functions in Python take both names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def spelled(**names: str) -> Callable[[F], F]:
    """Decorator: `name=ours` takes the keyword `name` for the argument `ours`.

    >>> @spelled(input="x")
    ... def double(x):
    ...     return 2 * x
    >>> double(input=2), double(x=2)
    (4, 4)
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for name in names.keys() & kwargs.keys():
                if names[name] in kwargs:
                    raise TypeError(f"{function.__name__}: got both {name} and {names[name]}, which are one argument")
                kwargs[names[name]] = kwargs.pop(name)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate
