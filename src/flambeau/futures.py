"""`Future`: a value that comes later, as `torch.futures` has it."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that some thread sets and others wait for.

    Args:
        devices: taken for PyTorch's sake; values are waited for where they are.

    Example:
        >>> from flambeau.futures import Future
        >>> future = Future()
        >>> text = future.then(lambda f: f"got {f.value()}")
        >>> future.set_result(3)
        >>> text.wait()
        'got 3'
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Future[T]], Any]] | None = []  # None once they are called: they may hold this future

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._inner.done()

    def wait(self) -> T:
        """The value, when it is there; raises what was set instead."""
        return self._inner.result()

    def value(self) -> T:
        """The value, which has to be there.

        Raises:
            RuntimeError: it is not there yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: there is no value yet; expected wait(), or a look at done() before")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Sets the value.

        Raises:
            RuntimeError: one was set before.
        """
        self._set(lambda: self._inner.set_result(result))

    def set_exception(self, result: BaseException) -> None:
        """Sets what `wait` raises.

        Raises:
            TypeError: it is no exception. RuntimeError: something was set before.
        """
        if not isinstance(result, BaseException):
            raise TypeError(f"Future.set_exception: got a {type(result).__name__}; expected an exception")
        self._set(lambda: self._inner.set_exception(result))

    def _set(self, do: Callable[[], None]) -> None:
        try:
            do()
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future: a result was set before; expected one") from None
        with self._lock:
            callbacks, self._callbacks = self._callbacks or [], None
        self._call(callbacks)

    def _call(self, callbacks: Sequence[Callable[[Future[T]], Any]]) -> None:
        """Calls all of them, and then raises what one of them ended this thread by."""
        ended = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logging.getLogger(__name__).exception("exception calling callback for %r", self)
            except BaseException as error:
                ended = error
        try:
            if ended is not None:
                raise ended
        finally:
            del ended  # it holds this frame

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Calls `callback(self)` when it is done, on the thread that makes it so; at once if it is.

        What it raises is logged; only a KeyboardInterrupt, a SystemExit and their like are raised on that thread, after the others.
        """
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        self._call([callback])

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of what `callback(self)` returns, or raises, when this is done."""
        after: Future[Any] = Future()

        def run(before: Future[T]) -> None:
            try:
                result = callback(before)
            except BaseException as error:
                after.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                after.set_result(result)

        self.add_done_callback(run)
        return after


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the futures, done when all of them are; it fails with the first of them that failed."""
    together: Future[list[Future[Any]]] = Future()
    waiting = list(futures)
    left = [len(waiting)]
    if not waiting:
        together.set_result([])
    lock = threading.Lock()

    def one_is_done(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            failed = next((f for f in waiting if f._inner.exception() is not None), None)
            if failed is None:
                together.set_result(waiting)
            else:
                together.set_exception(failed._inner.exception())  # type: ignore[arg-type]

    for future in waiting:
        future.add_done_callback(one_is_done)
    return together


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all; raises what the first of them that failed raises, when all are done."""
    return [future.wait() for future in collect_all(futures).wait()]
