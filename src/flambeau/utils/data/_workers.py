"""The worker threads behind a DataLoader.

    main: batches of indices --tasks--> worker threads --done[seq]--> main, in order of seq

A fetch draws from a generator of its own, seeded by the pass and the task's number, so random samples
(augmentation, say) are the same for any number of workers and leave the program's generator alone.

Threads share what the dataset holds, so nothing is forked or pickled; decoding and
array work run in parallel as far as they release the GIL. All state lives in `_Shared`, which
refers to neither the loader nor its iterator: when the iterator is dropped, its finalizer stops
the threads.

At most `prefetch_factor * workers` batches are under way. Map-style tasks go to whichever worker is
free. Where workers have copies of the dataset, which may differ (an iterable one, or one beside a
`worker_init_fn`), task k goes to worker k mod workers, so that nothing depends on speed. With
`persistent_workers` the loader keeps these copies from pass to pass, and each is initialised once.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flambeau import _C

_local = threading.local()
_worker_info: WorkerInfo | None = None  # what this process is a worker of, where a loader of a package's started it
_JOIN_SECONDS = 5.0


@dataclass(frozen=True)
class WorkerInfo:
    """What `get_worker_info` says inside a worker."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    base_seed: int = 0


def get_worker_info() -> WorkerInfo | None:
    """Inside a worker: its id, the number of workers, its seed and dataset; elsewhere None."""
    return getattr(_local, "info", _worker_info)


class OwnRandomness(_C.held):
    """While it lasts, this thread's default generator is one seeded by `seed` and `number`."""

    def __new__(cls, seed: int, number: int) -> OwnRandomness:
        # Below 2**63, as `initial_seed` may become a tensor.
        generator = _C.Generator().manual_seed((seed + number * 0x9E3779B97F4A7C15) % 2**63)
        return super().__new__(cls, _C.set_thread_generator, generator)


class _End:
    """A worker's iterable dataset is exhausted."""


class _Message(str):
    """A text that is its own repr, as a KeyError shows the repr of what it was given."""

    def __repr__(self) -> str:
        return str(self)


class WorkerError:
    """An exception of a worker, on its way to the consumer."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.error = error
        self.where = where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def reraise(self) -> None:
        """Raises the same type with the worker's traceback as text, chained to the original."""
        message = f"{type(self.error).__name__} in DataLoader {self.where}\n{self.text}"
        if isinstance(self.error, StopIteration):
            raise RuntimeError(message) from self.error
        try:
            error = type(self.error)(
                _Message(message) if isinstance(self.error, KeyError) else message
            )
        except Exception:
            # A type with other arguments: its text stays, the place goes into a RuntimeError.
            raise RuntimeError(message) from self.error
        raise error from self.error


class _Shared:
    def __init__(self, n: int) -> None:
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)  # there may be a task
        self.ready = threading.Condition(self.lock)  # there may be a result
        self.stopped = False
        # One queue for all, or one per worker.
        self.tasks: list[deque[tuple[int, Any]]] = [deque() for _ in range(n)]
        self.done: dict[int, Any] = {}
        self.running: dict[int, tuple[int, Any]] = {}  # worker -> task
        self.threads: list[threading.Thread] = []

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for queue in self.tasks:
                queue.clear()
            self.work.notify_all()
            self.ready.notify_all()


def _copied(dataset: Any) -> Any:
    """A dataset object with the same attributes, or the dataset itself where there can be none.

    It is not asked how it is copied or pickled: a wrapper that hands on what it does not have itself
    would look for what it wraps in an object that has nothing yet.
    """
    kind = type(dataset)
    if hasattr(kind, "__del__"):
        return dataset  # the copy's end would close what the dataset still uses
    try:
        made = object.__new__(kind)  # refused for what is more than attributes: a Tensor, an array, a list
        if hasattr(kind, "__copy__"):
            return kind.__copy__(dataset)
        for base in kind.__mro__:
            for slot in vars(base).values():
                if isinstance(slot, types.MemberDescriptorType):
                    _copy_slot(slot, dataset, made)
        if kind.__dictoffset__:
            object.__getattribute__(made, "__dict__").update(object.__getattribute__(dataset, "__dict__"))
    except Exception:
        return dataset  # as it is beside any other worker
    return made


def _copy_slot(slot: types.MemberDescriptorType, source: Any, target: Any) -> None:
    try:
        value = slot.__get__(source)
    except AttributeError:
        return  # nothing was written to it
    slot.__set__(target, value)


def stop_and_join(shared: _Shared) -> None:
    """Ends the threads; a thread inside the dataset's code ends when that returns."""
    shared.stop()
    deadline = time.monotonic() + _JOIN_SECONDS
    for thread in shared.threads:
        if thread is not threading.current_thread() and thread.is_alive():  # what has not begun yet can not be joined, and ends at once
            thread.join(max(0.0, deadline - time.monotonic()))


Fetch = Callable[[Any, Callable[[], bool]], Any]


def _worker(
    shared: _Shared,
    queue: int,
    info: WorkerInfo,
    init_fn: Callable[[int], Any] | None,
    make_fetch: Callable[[Any], Fetch],
    kept: dict[int, Any] | None,
) -> None:
    _local.info = info
    fetch: Fetch | None = None
    broken: WorkerError | None = None
    where = f"worker {info.id} of {info.num_workers}"
    try:
        if init_fn is not None:
            with OwnRandomness(info.seed, 0):
                init_fn(info.id)
        if kept is not None:
            kept[info.id] = info.dataset
        fetch = make_fetch(info.dataset)
    except BaseException as error:
        broken = WorkerError(error, f"{where}, while it started")
    while True:
        with shared.lock:
            while not shared.stopped and not shared.tasks[queue]:
                shared.work.wait()
            if shared.stopped:
                return
            seq, task = shared.tasks[queue].popleft()
            shared.running[info.id] = (seq, task)
        result: Any
        if broken is not None or fetch is None:
            result = broken
        else:
            try:
                with OwnRandomness(info.base_seed, seq):
                    result = fetch(task, lambda: shared.stopped)
            except BaseException as error:
                what = "" if task is None else f", batch {_short(task)}"
                result = WorkerError(error, where + what)
        with shared.lock:
            shared.running.pop(info.id, None)
            if shared.stopped:
                return
            shared.done[seq] = result
            shared.ready.notify_all()
        del result, task


def _short(task: Any) -> str:
    text = f"indices {task!r}" if isinstance(task, list) else f"index {task!r}"
    return text if len(text) <= 120 else text[:117] + "..."


class WorkerPool:
    """Threads, their tasks and the results in order."""

    def __init__(
        self,
        n: int,
        dataset: Any,
        seed: int,
        init_fn: Callable[[int], Any] | None,
        make_fetch: Callable[[Any], Fetch],
        timeout: float,
        own_queues: bool,
        kept: dict[int, Any] | None = None,
    ) -> None:
        """`kept`: a worker's id -> its copy of the dataset, initialised, of an earlier pass; None where passes begin anew."""
        self.n = n
        self.timeout = timeout
        self.own_queues = own_queues
        self.shared = _Shared(n if own_queues else 1)
        # Before there are threads, so that Ctrl-C among their beginnings leaves none.
        self.close = weakref.finalize(self, stop_and_join, self.shared)
        for i in range(n):
            known = kept is not None and i in kept
            own = kept[i] if kept is not None and known else _copied(dataset) if own_queues else dataset
            info = WorkerInfo(i, n, seed + i, own, seed)
            thread = threading.Thread(
                target=_worker,
                args=(self.shared, i if own_queues else 0, info, None if known else init_fn, make_fetch, kept),
                name=f"flambeau-data-{i}",
                daemon=True,
            )
            self.shared.threads.append(thread)
            thread.start()

    def put(self, seq: int, task: Any, worker: int) -> None:
        """Queues a task; `worker` matters with own queues only."""
        with self.shared.lock:
            self.shared.tasks[worker if self.own_queues else 0].append((seq, task))
            self.shared.work.notify_all()

    def get(self, seq: int) -> Any:
        """Waits for the result `seq`.

        Raises:
            RuntimeError: nothing came within `timeout` seconds; the text shows the workers' stacks.
        """
        shared = self.shared
        deadline = time.monotonic() + self.timeout if self.timeout > 0 else None
        with shared.lock:
            while seq not in shared.done:
                if shared.stopped:
                    raise RuntimeError("DataLoader: the iterator was shut down")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                shared.ready.wait(left)
            else:
                return shared.done.pop(seq)
        raise RuntimeError(
            f"DataLoader: batch {seq} did not come within timeout = {self.timeout} s\n"
            f"{self._stacks()}"
        )

    def _stacks(self) -> str:
        frames = sys._current_frames()
        lines = []
        for i, thread in enumerate(self.shared.threads):
            running = self.shared.running.get(i)
            doing = "idle" if running is None else f"at batch {running[0]}"
            lines.append(f"worker {i} ({doing}):")
            frame = frames.get(thread.ident or 0)
            if frame is not None and running is not None:
                lines.append("".join(traceback.format_stack(frame)).rstrip())
        return "\n".join(lines)


def iterate_in_worker_order(pool: WorkerPool, tasks: Iterator[Any] | None, ahead: int) -> Iterator[Any]:
    """The results in order; `tasks` is None for an iterable dataset (tasks without end).

    The first tasks are given out before it returns: a sampler draws its order when a pass begins, not with its first batch.
    """
    results = _in_worker_order(pool, tasks, ahead)
    next(results)
    return results


def _in_worker_order(pool: WorkerPool, tasks: Iterator[Any] | None, ahead: int) -> Iterator[Any]:
    """None, once the first tasks are given out; then the results."""
    live = list(range(pool.n))
    sent: deque[tuple[int, int]] = deque()  # (seq, worker)
    seq = 0
    turn = 0
    exhausted = begun = False
    while True:
        while not exhausted and len(sent) < ahead and live:
            task = None
            if tasks is not None:
                try:
                    task = next(tasks)
                except StopIteration:
                    exhausted = True
                    break
            worker = live[turn % len(live)]
            turn = (turn + 1) % len(live)
            pool.put(seq, task, worker)
            sent.append((seq, worker))
            seq += 1
        if not begun:
            begun = True
            yield None
        if not sent:
            return
        number, worker = sent.popleft()
        result = pool.get(number)
        if isinstance(result, _End):
            if worker in live:
                i = live.index(worker)
                live.remove(worker)
                if i < turn:
                    turn -= 1
                turn = turn % len(live) if live else 0
            continue
        if isinstance(result, WorkerError):
            result.reraise()
        yield result
        del result
