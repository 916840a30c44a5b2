"""The queues and pools of `multiprocessing`, which move tensors into shared memory before they take a value: Note [Shared memory]."""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing import context, pool, queues
from multiprocessing import get_context as _python_context
from typing import Any

from flambeau.multiprocessing._sharing import share_within

__all__ = ["JoinableQueue", "Pool", "Queue", "get_context"]


class _SharingQueue(queues.Queue):  # type: ignore[type-arg]
    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        share_within(obj)
        super().put(obj, block, timeout)


class _SharingJoinableQueue(queues.JoinableQueue):  # type: ignore[type-arg]
    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        share_within(obj)
        super().put(obj, block, timeout)


class _SharingPool(pool.Pool):
    def apply_async(self, func: Any, args: Any = (), kwds: Any = {}, *more: Any, **options: Any) -> Any:  # noqa: B006 (Python's)
        share_within((args, kwds))
        return super().apply_async(func, args, kwds, *more, **options)

    def _map_async(self, func: Any, iterable: Iterable[Any], *more: Any, **options: Any) -> Any:
        values = list(iterable)
        share_within(values)
        return super()._map_async(func, values, *more, **options)  # type: ignore[misc]


class _Sharing:
    """What a context has instead of Python's."""

    def Queue(self, maxsize: int = 0) -> Any:  # noqa: N802 (Python's name)
        return _SharingQueue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> Any:  # noqa: N802
        return _SharingJoinableQueue(maxsize, ctx=self.get_context())

    def Pool(  # noqa: N802
        self, processes: int | None = None, initializer: Any = None, initargs: Iterable[Any] = (), maxtasksperchild: int | None = None
    ) -> Any:
        return _SharingPool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def get_context(self, method: str | None = None) -> Any:
        return self if method is None else get_context(method)


_made: dict[type, Any] = {}


def get_context(method: str | None = None) -> Any:
    """Python's context of this name, or the one in use, with queues and pools through which tensors are shared.

    Raises:
        ValueError: the system has no such way to start processes.
    """
    kind: type[context.BaseContext] = type(_python_context(method))
    if kind not in _made:
        _made[kind] = type(kind.__name__, (_Sharing, kind), {})()
    return _made[kind]


def Queue(maxsize: int = 0) -> Any:  # noqa: N802
    """A queue between processes, which see the same memory of the tensors that go through it."""
    return get_context().Queue(maxsize)


def JoinableQueue(maxsize: int = 0) -> Any:  # noqa: N802
    """A `Queue` whose tasks can be waited for."""
    return get_context().JoinableQueue(maxsize)


def Pool(  # noqa: N802
    processes: int | None = None, initializer: Any = None, initargs: Iterable[Any] = (), maxtasksperchild: int | None = None
) -> Any:
    """Processes that call functions; the tensors among arguments and results are shared with them."""
    return get_context().Pool(processes, initializer, initargs, maxtasksperchild)
