"""Marks of data pipes: which are not deterministic, and what their arguments have to be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.utils.data.datapipes._base import IterDataPipe

_settings = {"deterministic": False, "checked": True}


class _Setting:
    """A switch that is thrown when it is made, and back at the end of a `with`."""

    _name = ""
    _value = True

    def __init__(self) -> None:
        self.prev = _settings[self._name]
        _settings[self._name] = self._value

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _settings[self._name] = self.prev


class guaranteed_datapipes_determinism(_Setting):
    """Inside, pipes that are marked by `non_deterministic` are refused with a TypeError."""

    _name, _value = "deterministic", True


class runtime_validation_disabled(_Setting):
    """Inside, `runtime_validation` checks nothing. It never does here: pipes have no types of their samples."""

    _name, _value = "checked", False


class non_deterministic:
    """Marks an IterDataPipe whose samples are others each time: a decorator.

    Args:
        arg: the class; or a function of what it is made with, that says by True which pipes are meant.

    Raises:
        TypeError: something else, or a pipe inside of `guaranteed_datapipes_determinism`.

    Example:
        >>> from flambeau.utils.data import IterDataPipe, guaranteed_datapipes_determinism, non_deterministic
        >>> @non_deterministic
        ... class Draws(IterDataPipe):
        ...     pass
        >>> with guaranteed_datapipes_determinism():
        ...     Draws()
        Traceback (most recent call last):
        TypeError: Draws: not deterministic, which guaranteed_datapipes_determinism asks for
    """

    def __init__(self, arg: Any) -> None:
        self.cls: Any = None
        self.deterministic_fn: Any = None
        if isinstance(arg, type):
            self.cls = self._pipe(arg)
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"non_deterministic: got a {type(arg).__name__}; expected an IterDataPipe, or a function")

    @staticmethod
    def _pipe(cls: Any) -> Any:
        if not isinstance(cls, type) or not issubclass(cls, IterDataPipe):
            raise TypeError(f"non_deterministic: it marks {getattr(cls, '__name__', cls)}; expected an IterDataPipe")
        return cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            return self._made(True, args, kwargs)
        self.cls = self._pipe(args[0])
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Makes a pipe, after the function was asked."""
        marked = self.deterministic_fn(*args, **kwargs)
        if not isinstance(marked, bool):
            raise TypeError(f"non_deterministic: the function returned a {type(marked).__name__}; expected a bool")
        return self._made(marked, args, kwargs)

    def _made(self, marked: bool, args: Any, kwargs: Any) -> Any:
        if marked and _settings["deterministic"]:
            raise TypeError(f"{self.cls.__name__}: not deterministic, which guaranteed_datapipes_determinism asks for")
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: arguments that are annotated as data pipes have to be some.

    Raises:
        TypeError: by the call.
    """
    from inspect import signature
    from typing import get_type_hints

    form, hints = signature(f), get_type_hints(f)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in form.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            if isinstance(hint, type) and issubclass(hint, IterDataPipe) and not isinstance(value, IterDataPipe):
                raise TypeError(f"{f.__qualname__}: {name} is a {type(value).__name__}; expected an IterDataPipe")
        return f(*args, **kwargs)

    return wrapper


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of `__iter__`, which would check the samples' types, had pipes any.

    Raises:
        TypeError: of another method.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"runtime_validation: it decorates {f.__name__}; expected __iter__")
    return f
