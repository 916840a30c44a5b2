"""Switches of recording, each a context manager and a decorator. They hold for the calling thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flambeau import _C

F = TypeVar("F", bound=Callable[..., Any])

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled


class _Mode:
    """What the switches share: `with mode():`, `@mode()` and `@mode`."""

    def __call__(self, orig_func: F) -> F:
        # Dear to import, and most programs decorate nothing.
        from inspect import isgeneratorfunction

        if isgeneratorfunction(orig_func):

            @functools.wraps(orig_func)
            def generator(*args: Any, **kwargs: Any) -> Any:
                # The mode holds while the generator runs, not while its consumer does.
                running = orig_func(*args, **kwargs)
                resume: Callable[[], Any] = lambda: running.send(None)  # noqa: E731
                try:
                    while True:
                        try:
                            with self.clone():
                                item = resume()
                        except StopIteration as stop:
                            return stop.value
                        try:
                            value = yield item
                            resume = functools.partial(running.send, value)
                        except GeneratorExit:
                            raise
                        except BaseException as fault:
                            resume = functools.partial(running.throw, fault)
                finally:
                    with self.clone():
                        running.close()

            return generator  # type: ignore[return-value]

        @functools.wraps(orig_func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return orig_func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    def clone(self) -> Any:
        """The same switch, to be entered once more."""
        return type(self)()

    def __enter__(self) -> Any:
        raise AssertionError("a mode defines __enter__")

    def __exit__(self, *exc: object) -> None:
        raise AssertionError("a mode defines __exit__")


class _GradMode(_C.GradSwitch, _Mode): ...


if TYPE_CHECKING:
    # With a function they give the function, which type checkers do not believe of classes.
    @overload
    def no_grad(orig_func: None = ...) -> _GradMode: ...

    @overload
    def no_grad(orig_func: F) -> F: ...

    def no_grad(orig_func: Any = ...) -> Any: ...

    @overload
    def enable_grad(orig_func: None = ...) -> _GradMode: ...

    @overload
    def enable_grad(orig_func: F) -> F: ...

    def enable_grad(orig_func: Any = ...) -> Any: ...

    @overload
    def inference_mode(mode: bool = ...) -> _Mode: ...

    @overload
    def inference_mode(mode: F) -> F: ...

    def inference_mode(mode: Any = ...) -> Any: ...

else:

    class no_grad(_GradMode):
        """Nothing is recorded inside.

        Example:
            >>> import flambeau as fl
            >>> w = fl.ones(2, requires_grad=True)
            >>> with fl.no_grad():
            ...     y = w * 2
            >>> y.requires_grad
            False
        """

        def __new__(cls, orig_func: Any = None) -> Any:
            self = super().__new__(cls)
            return self if orig_func is None else self(orig_func)

    class enable_grad(_GradMode):
        """Operations are recorded inside, also within `no_grad`.

        Example:
            >>> import flambeau as fl
            >>> w = fl.ones(1, requires_grad=True)
            >>> with fl.no_grad(), fl.enable_grad():
            ...     y = w * 2
            >>> y.requires_grad
            True
        """

        def __new__(cls, orig_func: Any = None) -> Any:
            self = super().__new__(cls)
            self.mode = True
            return self if orig_func is None else self(orig_func)

    class inference_mode(_C.InferenceSwitch, _Mode):
        """`no_grad`, and the tensors made inside can never take part in a recorded graph; `mode=False` switches both off."""

        def __new__(cls, mode: Any = True) -> Any:
            self = super().__new__(cls)
            if callable(mode):
                self.mode = True
                return self(mode)
            self.mode = switch("inference_mode", mode)
            return self

        def __init__(self, mode: Any = True) -> None:
            pass

        def clone(self) -> inference_mode:
            """The same switch, to be entered once more."""
            return type(self)(self.mode)


def switch(op: str, mode: Any) -> bool:
    """Whether a mode is switched on, of what says so; a text would always."""
    if mode is None or isinstance(mode, (str, bytes, list, tuple, dict, set)):
        raise TypeError(f"{op}: mode = {mode!r}; expected a bool")
    return bool(mode)


class set_grad_enabled(_C.GradSetting, _Mode):
    """Recording on or off, from the call on; restored at the end where it is used in a `with`."""

    def __init__(self, mode: bool) -> None:
        self.mode = switch("set_grad_enabled", mode)
        self.set()

    def __call__(self, orig_func: F) -> F:
        self.__exit__()
        return super().__call__(orig_func)

    def clone(self) -> set_grad_enabled:
        """The same switch, to be used once more."""
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}(mode={self.mode})"


class _Threads(threading.local):
    several = True


_threads = _Threads()


class set_multithreading_enabled(_Mode):
    """Whether a backward over several devices may use a thread for each. Here there is one device, and what is set is only remembered."""

    def __init__(self, mode: bool) -> None:
        self.mode, self._saved = bool(mode), _threads.several
        _threads.several = self.mode

    def __call__(self, orig_func: F) -> F:
        _threads.several = self._saved
        return super().__call__(orig_func)

    def clone(self) -> set_multithreading_enabled:
        """The same switch, to be used once more."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        _threads.several = self.mode

    def __exit__(self, *exc: object) -> None:
        _threads.several = self._saved


class enforce_grad_layout_policy(_Mode):
    """Whether a gradient has to lie in memory as its leaf does. It does so here in any case, and nothing is copied for it."""

    def __init__(self, enable: bool = True) -> None:
        self.mode = bool(enable)

    def clone(self) -> enforce_grad_layout_policy:
        """The same switch, to be used once more."""
        return type(self)(self.mode)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` has set for the calling thread."""
    return _threads.several
