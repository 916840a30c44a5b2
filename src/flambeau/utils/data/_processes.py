"""The worker processes behind a DataLoader, where it has a `multiprocessing_context`; `_workers.py` has the threads.

    parent: task k --channel k mod n--> worker: reading thread -> inbox -> main thread fetches --the same channel--> parent, by k

Each worker has a copy of the dataset and seeds of its own, as PyTorch's have. What it runs is what threads run (`started`, `fetched`
and their errors), and the consumer is the same (`iterate_in_worker_order`). What is here is what processes add:

* The worker's reading thread always takes what comes, so that the parent can never wait for a worker that waits for the parent (a long
  list of indices one way, a large batch the other). It notices at once when the parent has closed the channel, or has died.
* The parent waits for channels and for the ends of processes. A worker that is gone is an error when a batch of its is needed.
* A pass has a number. With `persistent_workers` what still comes of a pass that was given up is dropped without being unpickled.
* Nothing has a name in a file system: channels are pairs of sockets, tensors come in memory files (`multiprocessing/_channel.py`).

`_dismiss` ends the processes: it closes the channels, waits a little, and then ends them by signals. It refers to neither the loader
nor its iterator, and runs when these are dropped, after an error, and at the end of the program.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection, util
from typing import Any

from flambeau import _C
from flambeau.multiprocessing._channel import Channel, Parcel, pack
from flambeau.utils.data._fetch import Fetch, Recipe
from flambeau.utils.data._pickling import Sealed
from flambeau.utils.data._workers import (
    JOIN_SECONDS,
    WorkerError,
    WorkerInfo,
    be_worker,
    fetched,
    numpy_seed,
    started,
    too_late,
)

# What a message is; beside it the number of the pass, and that of the task.
_PASS, _TASK, _END, _STACK, _RESULT = range(5)
_STACK_SECONDS = 0.5
_ADVICE = {
    "SIGKILL": "the kernel does that when memory runs out: take fewer workers, a smaller prefetch_factor, or worker threads",
    "SIGSEGV": "compiled code that the dataset calls crashed: num_workers=0 and `python -X faulthandler` show where",
    "SIGBUS": "memory could not be had when it was written to: take fewer workers, a smaller prefetch_factor, or worker threads",
}

# ------------------------------------------------------------------------------------------- in the worker


class _Inbox:
    """What the parent sends, taken by a thread as it comes."""

    def __init__(self, channel: Channel) -> None:
        self.run: int | None = None  # the pass that is under way
        self._channel = channel
        self._messages: queue.SimpleQueue[tuple[tuple[int, int, int], Parcel] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(threading.get_ident(),), name="flambeau-data-inbox", daemon=True).start()

    def __iter__(self) -> Iterator[tuple[tuple[int, int, int], Parcel]]:
        """The messages, until the parent has closed the channel."""
        while (message := self._messages.get()) is not None:
            yield message

    def _read(self, main: int) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                (kind, run, seq), parcel = self._channel.read()
                if kind == _STACK:
                    stack = "".join(traceback.format_stack(sys._current_frames()[main]))
                    self._channel.write((_STACK, run, seq), pack(stack))
                    continue
                self.run = None if kind == _END else run
                self._messages.put(((kind, run, seq), parcel))
        self.run = None
        self._messages.put(None)
        time.sleep(JOIN_SECONDS)
        os._exit(1)  # the main thread is inside the dataset's code, and nobody waits for what comes of it


def _serve(connection: Any, sealed: Sealed, number: int, n: int, seed: int) -> None:
    """What a worker process does."""
    signal.set_wakeup_fd(-1)  # a fork has what the parent wanted of signals
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _C.set_num_threads(1)  # the workers share the processors
    _seed_all(seed, number)
    channel = Channel(connection)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError):  # the parent is gone
        _work(channel, _Inbox(channel), _Begun(sealed, WorkerInfo(number, n, seed + number, None, seed)))


def _seed_all(base_seed: int, number: int) -> None:
    import numpy as np

    from flambeau import manual_seed

    manual_seed(base_seed + number)
    random.seed(base_seed + number)
    np.random.seed(numpy_seed(base_seed, number))


def _work(channel: Channel, inbox: _Inbox, worker: _Begun) -> None:
    signal.signal(signal.SIGINT, worker.interrupt)
    fetch: Fetch | WorkerError | None = None
    for (kind, run, seq), parcel in inbox:
        if run != inbox.run:
            continue  # of a pass that is over
        if kind == _PASS:
            fetch = worker.begin(parcel.open())
        elif kind == _TASK and fetch is not None:

            def over(run: int = run) -> bool:
                return inbox.run != run

            channel.write((_RESULT, run, seq), worker.result(fetch, parcel, over))
        del parcel


class _Begun:
    """The dataset in a worker, and how it is fetched from."""

    def __init__(self, sealed: Sealed, info: WorkerInfo) -> None:
        self._place = f"worker {info.id} of {info.num_workers}"
        self._initialised = self._fetching = False
        self._broken: WorkerError | None = None
        self.info = info
        try:
            dataset, self._init_fn, self._recipe = sealed.open()
        except BaseException as error:
            what = "while it unpickled the dataset (its classes and functions have to be in a module that can be imported)"
            self._broken = WorkerError(error, f"{self._place}, {what}")
        else:
            self.info = WorkerInfo(info.id, info.num_workers, info.seed, dataset, info.base_seed)
        be_worker(self.info, process=True)

    def begin(self, seeds: list[int | None] | None) -> Fetch | WorkerError:
        """A pass. `seeds` are those of the shufflers of a data pipe."""
        if self._broken is not None:
            return self._broken
        if seeds is not None:
            from flambeau.utils.data.graph_settings import set_shuffle_seeds

            set_shuffle_seeds(self.info.dataset, seeds)
        return started(self.info, self._initialise, self._recipe)

    def _initialise(self, worker: int) -> None:
        if self._init_fn is not None and not self._initialised:
            self._init_fn(worker)
        self._initialised = True

    def result(self, fetch: Fetch | WorkerError, parcel: Parcel, over: Callable[[], bool]) -> Any:
        """What comes of a task, packed."""
        try:
            task = parcel.open()
        except BaseException as error:
            return pack(WorkerError(error, f"{self._place}, while it unpickled the indices of a batch"))
        self._fetching = True
        batch = fetched(fetch, task, over, self.info)
        self._fetching = False
        try:
            return pack(batch, move=True)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EMFILE, errno.ENFILE):
                error = OSError(error.errno, f"no shared memory for a batch: {error.strerror}; {_LESS}")
            return pack(WorkerError(error, f"{self._place}, while it sent a batch"))

    def interrupt(self, *signal: Any) -> None:
        """Ctrl-C goes to all processes: it ends what the dataset does, and the parent decides about the worker."""
        if self._fetching:
            self._fetching = False
            raise KeyboardInterrupt


_LESS = "take a smaller batch_size, prefetch_factor or num_workers, or worker threads (no multiprocessing_context), which need none"

# ------------------------------------------------------------------------------------------- in the parent
_AT_ONCE = (
    "what it wrote to stderr says why. A script whose workers are spawned has to keep what it does under "
    '`if __name__ == "__main__":`, since each worker imports it'
)


class _Worker:
    """A worker process, as the parent sees it."""

    def __init__(self, process: Any, channel: Channel, place: str) -> None:
        self.process, self.channel, self.place = process, channel, place
        self.ended = self.heard = False
        self.stack = ""

    def why(self) -> str:
        """What became of a worker that has ended."""
        self.process.join(1.0)
        code = self.process.exitcode
        who = f"DataLoader {self.place} (pid {self.process.pid})"
        if code is None:
            return f"{who} closed its connection unexpectedly"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:  # one without a name
                name = str(-code)
            advice = f"; {_ADVICE[name]}" if name in _ADVICE else ""
            return f"{who} is killed by signal: {name}{advice}"
        text = f"{who} exited unexpectedly with code {code}"
        if self.heard or not code:
            return text
        return f"{text} before its first batch; {_AT_ONCE}"


class _Crew:
    """The workers, for who ends them."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []
        self.owner = os.getpid()


def _dismiss(crew: _Crew) -> None:
    if os.getpid() != crew.owner:
        return  # a process that was forked has them by name only
    workers, crew.workers = crew.workers, []
    for worker in workers:
        worker.channel.close()
    deadline = time.monotonic() + JOIN_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
    for end in ("terminate", "kill"):
        stubborn = [worker.process for worker in workers if worker.process.is_alive()]
        for process in stubborn:
            getattr(process, end)()
        for process in stubborn:
            process.join(1.0)
    for worker in workers:
        with contextlib.suppress(ValueError):  # it is stuck in the kernel
            worker.process.close()


class ProcessPool:
    """Processes that serve one pass after the other."""

    def __init__(
        self,
        context: Any,
        n: int,
        dataset: Any,
        seed: int,
        init_fn: Callable[[int], Any] | None,
        recipe: Recipe,
        timeout: float,
        persistent: bool,
    ) -> None:
        """Starts them.

        Raises:
            PicklingError: the dataset or a function can not be pickled, and the context does not fork.
            RuntimeError: one of them ended at once.
        """
        self.n, self.timeout, self.persistent = n, timeout, persistent
        self.sound = True  # False while a message is written or waited for, and so after an error of that
        self.run = 0
        self._done: dict[int, Parcel] = {}
        self._owner: dict[int, _Worker] = {}  # of each task that is under way
        self._crew = _Crew()
        self.close = weakref.finalize(self, _dismiss, self._crew)
        sealed = Sealed(dataset, init_fn, recipe)
        try:
            for i in range(n):
                self._crew.workers.append(_start(context, sealed, i, n, seed))
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether another pass can begin."""
        return self.sound and bool(self.close.alive)

    def begin(self, seeds: list[int | None] | None) -> ProcessPass:
        """A pass; one that is under way is given up."""
        self.run += 1
        self._done.clear()
        self._owner.clear()
        self.tell(_PASS, seeds)
        return ProcessPass(self, self.run)

    def end(self, run: int) -> None:
        """Has the workers forget what they still were to do for a pass."""
        if run == self.run and self.close.alive:
            self._done.clear()
            self.tell(_END, None)

    def tell(self, kind: int, value: Any) -> None:
        packed = pack(value)
        for worker in self._crew.workers:
            self._write(worker, (kind, self.run, 0), packed)

    def put(self, seq: int, task: Any, worker: int) -> None:
        """Sends a task to a worker."""
        packed = pack(task)
        self._owner[seq] = self._crew.workers[worker]
        self._write(self._owner[seq], (_TASK, self.run, seq), packed)

    def _write(self, worker: _Worker, head: tuple[int, int, int], packed: Any) -> None:
        sound, self.sound = self.sound, False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who needs its batches is told
            worker.channel.write(head, packed)
        self.sound = sound

    def get(self, seq: int) -> Any:
        """Waits for the result `seq`.

        Raises:
            RuntimeError: its worker has ended; or nothing came within `timeout` seconds, and the text shows where the workers are.
        """
        self.sound = False
        deadline = time.monotonic() + self.timeout if self.timeout > 0 else None
        worker = self._owner[seq]
        while seq not in self._done:
            if worker.ended:
                raise RuntimeError(worker.why())
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise too_late(seq, self.timeout, self._stacks())
            self._collect(left)
        del self._owner[seq]
        parcel = self._done.pop(seq)
        self.sound = True
        return parcel.open()

    def _collect(self, timeout: float | None) -> None:
        """Waits until a worker has said something or has ended, and takes what is there."""
        sources: dict[Any, _Worker] = {}
        for worker in self._crew.workers:
            if not worker.ended:
                sources[worker.channel] = sources[worker.process.sentinel] = worker
        ready: list[Any] = connection.wait(list(sources), timeout)
        for source in ready:
            worker = sources[source]
            try:
                if source is worker.channel:
                    self._take(worker)
                    continue
                while worker.channel.waiting():  # what it said before it ended
                    self._take(worker)
            except (EOFError, ConnectionResetError):
                pass
            worker.ended = True

    def _take(self, worker: _Worker) -> None:
        (kind, run, seq), parcel = worker.channel.read()
        worker.heard = True
        if kind == _STACK:
            worker.stack = parcel.open()
        elif run == self.run and seq in self._owner:
            self._done[seq] = parcel

    def _stacks(self) -> str:
        self.tell(_STACK, None)
        deadline = time.monotonic() + _STACK_SECONDS
        while (left := deadline - time.monotonic()) > 0 and any(not w.stack and not w.ended for w in self._crew.workers):
            self._collect(left)
        return "\n".join(
            f"{worker.place} (pid {worker.process.pid}):\n{worker.why() if worker.ended else worker.stack.rstrip() or 'does not answer'}"
            for worker in self._crew.workers
        )


def _start(context: Any, sealed: Sealed, number: int, n: int, seed: int) -> _Worker:
    ours, theirs = context.Pipe()
    channel, place = Channel(ours), f"worker {number} of {n}"
    util.register_after_fork(channel, Channel.close)  # a fork that kept it open would hide the end of this process
    try:
        name = f"flambeau-data-{number}"
        process = context.Process(target=_serve, args=(theirs, sealed, number, n, seed), name=name, daemon=True)
        process.start()
    except (BrokenPipeError, ConnectionResetError, EOFError) as error:
        channel.close()
        raise RuntimeError(f"DataLoader {place} ended while it was started; {_AT_ONCE}") from error
    except BaseException:
        channel.close()
        raise
    finally:
        theirs.close()
    return _Worker(process, channel, place)


class ProcessPass:
    """One pass of a pool; dropping it ends the pass, and the processes unless they are persistent."""

    def __init__(self, pool: ProcessPool, run: int) -> None:
        self.n = pool.n
        self._pool, self._run = pool, run
        self.close = weakref.finalize(self, _leave, pool, run)
        self.close.atexit = False

    def _current(self) -> ProcessPool:
        if self._run != self._pool.run:
            raise RuntimeError(
                "DataLoader: another pass has begun, and the worker processes of persistent_workers = True serve one at a time; finish "
                "this one first, or make another loader"
            )
        if not self.close.alive:
            raise RuntimeError("DataLoader: the iterator was shut down")
        return self._pool

    def put(self, seq: int, task: Any, worker: int) -> None:
        """Sends a task to a worker."""
        self._current().put(seq, task, worker)

    def get(self, seq: int) -> Any:
        """Waits for a result."""
        return self._current().get(seq)


def _leave(pool: ProcessPool, run: int) -> None:
    if pool.persistent and pool.sound:
        pool.end(run)
    elif run == pool.run:
        pool.close()
