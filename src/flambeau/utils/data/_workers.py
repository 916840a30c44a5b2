"""The worker threads behind a DataLoader.

    main: batches of indices --tasks--> worker threads --done[seq]--> main, in order of seq

A fetch draws from a generator of its own, seeded by the pass and the task's number, so random samples
(augmentation, say) are the same for any number of workers and leave the program's generator alone.

Threads share what the dataset holds, so nothing is forked or pickled; decoding and
array work run in parallel as far as they release the GIL. All state lives in `_Shared`, which
refers to neither the loader nor its iterator: when the iterator is dropped, its finalizer stops
the threads.

At most `prefetch_factor * workers` batches are under way. Map-style tasks go to whichever thread is
free, under the number of the worker whose turn it is, which `get_worker_info` says. Where
workers have copies of the dataset, which may differ (an iterable one, or one beside a `worker_init_fn`),
task k goes to worker k mod workers, so that nothing depends on speed. With `persistent_workers` the
loader keeps these copies from pass to pass, and each is initialised once.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import traceback
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from flambeau import _C
from flambeau._warn import warn_once
from flambeau.utils.data._fetch import End, Fetch
from flambeau.utils.data._global_draws import moved, places, warning

_local = threading.local()
_worker_info: WorkerInfo | None = None  # what this process is a worker of, where a loader of a package's started it
JOIN_SECONDS = 5.0


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


def be_worker(info: WorkerInfo, process: bool = False) -> None:
    """Makes this thread, and with `process` all threads of this process, a worker: what `get_worker_info` says here."""
    global _worker_info
    _local.info = info
    if process:
        _worker_info = info


def numpy_seed(base_seed: int, worker: int) -> list[int]:
    """A seed of NumPy's that depends on a seed and a worker's number: four 32-bit words."""
    import numpy as np

    words = np.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)
    return [int(word) for word in words]


class OwnRandomness(_C.held):
    """While it lasts, this thread's default generator is one seeded by `seed` and `number`."""

    def __new__(cls, seed: int, number: int) -> OwnRandomness:
        # Below 2**63, as `initial_seed` may become a tensor.
        generator = _C.Generator().manual_seed((seed + number * 0x9E3779B97F4A7C15) % 2**63)
        return super().__new__(cls, _C.set_thread_generator, generator)


class _Message(str):
    """A text that is its own repr, as a KeyError shows the repr of what it was given."""

    def __repr__(self) -> str:
        return str(self)


class WorkerError:
    """An exception of a worker, on its way to the consumer. It can be pickled, whether or not the exception can."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: type[BaseException] = type(error)
        self.error: BaseException | None = error
        self.name = type(error).__name__
        self.where = where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kind": _pickled(self.kind), "error": _pickled(self.error)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.kind = _unpickled(state["kind"]) or RuntimeError
        self.error = _unpickled(state["error"])

    def reraise(self) -> None:
        """Raises the same type with the worker's traceback as text, chained to the original."""
        message = f"{self.name} in DataLoader {self.where}\n{self.text}"
        try:
            error = self.kind(_Message(message) if issubclass(self.kind, KeyError) else message)
        except Exception:
            # A type with other arguments: its text stays, the place goes into a RuntimeError.
            raise RuntimeError(message) from self.error
        raise error from self.error


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # whatever its class says to that
        return None


def _unpickled(data: bytes | None) -> Any:
    try:
        return None if data is None else pickle.loads(data)
    except Exception:
        return None


def started(info: WorkerInfo, init_fn: Callable[[int], Any] | None, make_fetch: Callable[[Any], Fetch]) -> Fetch | WorkerError:
    """What a worker fetches by, once it is initialised."""
    try:
        if init_fn is not None:
            init_fn(info.id)
        return make_fetch(info.dataset)
    except BaseException as error:
        return WorkerError(error, f"worker {info.id} of {info.num_workers}, while it started")


def fetched(fetch: Fetch | WorkerError, task: Any, stopped: Callable[[], bool], info: WorkerInfo) -> Any:
    """What comes of a task: a batch, `End` or a `WorkerError`."""
    if isinstance(fetch, WorkerError):
        return fetch
    try:
        return fetch(task, stopped)
    except BaseException as error:
        what = "" if task is None else f", batch {_short(task)}"
        return WorkerError(error, f"worker {info.id} of {info.num_workers}{what}")


def too_late(seq: int, timeout: float, stacks: str) -> RuntimeError:
    """The error of a batch that did not come in time."""
    return RuntimeError(f"DataLoader: batch {seq} did not come within timeout = {timeout} s\n{stacks}")


class _Shared:
    def __init__(self, n: int) -> None:
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)  # there may be a task
        self.ready = threading.Condition(self.lock)  # there may be a result
        self.stopped = False
        # One queue for all, or one per worker.
        self.tasks: list[deque[tuple[int, Any, WorkerInfo | None]]] = [deque() for _ in range(n)]
        self.done: dict[int, Any] = {}
        self.running: dict[int, tuple[int, Any]] = {}  # worker -> task
        self.threads: list[threading.Thread] = []
        self.drawn: str | None = None  # global generators that a fetch moved
        self.patience = JOIN_SECONDS  # at the end

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
    deadline = time.monotonic() + shared.patience
    for thread in shared.threads:
        if thread is not threading.current_thread() and thread.is_alive():  # what has not begun yet can not be joined, and ends at once
            thread.join(max(0.0, deadline - time.monotonic()))


def _worker(
    shared: _Shared,
    queue: int,
    info: WorkerInfo,
    init_fn: Callable[[int], Any] | None,
    make_fetch: Callable[[Any], Fetch],
    kept: dict[int, Any] | None,
) -> None:
    be_worker(info)

    def initialise(worker: int) -> None:
        if init_fn is not None:
            with OwnRandomness(info.seed, 0):
                init_fn(worker)
        if kept is not None:
            kept[worker] = info.dataset

    fetch = started(info, initialise, make_fetch)
    watched = info.num_workers > 1  # a single thread draws in order
    while True:
        with shared.lock:
            while not shared.stopped and not shared.tasks[queue]:
                shared.work.wait()
            if shared.stopped:
                return
            seq, task, turn = shared.tasks[queue].popleft()
            shared.running[info.id] = (seq, task)
        before = places() if watched else None
        if turn is not None:
            be_worker(turn)
        with OwnRandomness(info.base_seed, seq):
            result = fetched(fetch, task, lambda: shared.stopped, turn or info)
        drawn, watched = before and moved(before), False
        with shared.lock:
            shared.drawn = shared.drawn or drawn
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
        self._turns = [WorkerInfo(i, n, seed + i, dataset, seed) for i in range(n)]
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
        """Queues a task: of that worker, or, where threads share a queue, under its number."""
        with self.shared.lock:
            if self.own_queues:
                self.shared.tasks[worker].append((seq, task, None))
            else:
                self.shared.tasks[0].append((seq, task, self._turns[worker]))
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
                result = shared.done.pop(seq)
                if shared.drawn is not None:
                    warn_once(warning(shared.drawn))
                return result
        shared.patience = min(self.timeout, JOIN_SECONDS)  # who waits for no batch waits for no thread
        raise too_late(seq, self.timeout, self._stacks())

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


class Workers(Protocol):
    """What a pass asks of workers, be they threads or processes."""

    n: int

    def put(self, seq: int, task: Any, worker: int) -> None: ...

    def get(self, seq: int) -> Any: ...

    def close(self) -> Any: ...


def iterate_in_worker_order(pool: Workers, tasks: Iterator[Any] | None, ahead: int) -> Iterator[Any]:
    """The results in order, a `WorkerError` among them; `tasks` is None for an iterable dataset (tasks without end).

    The first tasks are given out before it returns: a sampler draws its order when a pass begins, not with its first batch.
    """
    results = _in_worker_order(pool, tasks, ahead)
    next(results)
    return results


def _in_worker_order(pool: Workers, tasks: Iterator[Any] | None, ahead: int) -> Iterator[Any]:
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
        if isinstance(result, End):
            if worker in live:
                i = live.index(worker)
                live.remove(worker)
                if i < turn:
                    turn -= 1
                turn = turn % len(live) if live else 0
            continue
        yield result
        del result
