"""One lock for the import of every part of the library, under its own name and under PyTorch's.

Parts are imported when they are first used, by whichever thread uses them first. Python locks each module by itself and a
child before its parent, so a thread that begins with `flambeau.utils.data` and one that begins with `flambeau.utils` wait for each other,
and Python breaks that by an error in one of them or by handing out a module that is half made. Here all names of the package have the lock
of the package itself, which its importer already holds: a thread that wants a part waits until the part is whole.

`importlib` has no public way to say so. Where its table of locks has another form, parts are locked one by one, as Python does it.
"""

from __future__ import annotations

import _thread
import importlib
import os
import sys
import typing

_bootstrap: typing.Any = importlib._bootstrap  # type: ignore[attr-defined]


class _Locks(dict[str, typing.Callable[[], typing.Any]]):
    """Python's table of the locks of modules, by name; names of these packages that are not in it have the one lock."""

    def __init__(self, locks: dict[str, typing.Callable[[], typing.Any]], package: str) -> None:
        super().__init__(locks)
        self.packages = {package}
        self._lock = self.pop(package)()
        self._name = package
        self._imported_here = False
        self._forks: int | None = None  # the thread that holds the lock for a fork

    def __missing__(self, name: str) -> typing.Callable[[], typing.Any]:
        if name.partition(".")[0] in self.packages:
            return self._get
        raise KeyError(name)

    def _get(self) -> typing.Any:
        lock, me = self._lock, _thread.get_ident()
        owner = lock.owner
        if owner is not None and owner not in (me, self._forks) and not _imports(owner):
            # Ctrl-C came between its last import and the release of the lock. All come by here before they take it, one at a time.
            lock.owner = me
            lock.acquire()  # it may have got as far as to count
            while lock.count:
                lock.release()
        return lock

    def before_fork(self) -> None:
        """What another thread is importing would stay half made in the child, where nobody ends it."""
        me = _thread.get_ident()
        self._imported_here = self._lock.owner == me
        try:
            self._lock.acquire()
        except RuntimeError:  # that thread waits for something that this one is importing
            return
        self._forks = me

    def after_fork(self) -> None:
        if self._forks == _thread.get_ident():
            self._forks = None
            self._lock.release()

    def in_child(self) -> None:
        self._forks = None
        if self._imported_here:
            self._lock.release()
        else:  # threads that the child lacks may have been waiting for it
            self._lock = type(self._lock)(self._name)


def _imports(thread: int) -> bool:
    """Whether a thread is inside of an import, or of `before_fork`."""
    files = _bootstrap._find_and_load.__code__.co_filename, _imports.__code__.co_filename
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename not in files:
        frame = frame.f_back
    return frame is not None


def share_one_lock(package: str) -> None:
    """Gives all parts of `package` one lock: this library's, which is that of the first call, by whoever imports the package itself."""
    import _imp

    _imp.acquire_lock()  # Python changes its table under this one
    try:
        locks = getattr(_bootstrap, "_module_locks", None)
        if isinstance(locks, _Locks):
            locks.packages.add(package)
            return
        if type(locks) is not dict or package not in locks:
            return
        _bootstrap._module_locks = shared = _Locks(locks, package)
    finally:
        _imp.release_lock()
    os.register_at_fork(before=shared.before_fork, after_in_parent=shared.after_fork, after_in_child=shared.in_child)


share_one_lock("flambeau")
