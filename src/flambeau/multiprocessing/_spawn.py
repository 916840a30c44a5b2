"""Processes that call one function, and hand what they raise to who waits for them."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import time
import traceback
from multiprocessing import connection
from typing import Any

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
]  # fmt: skip
_GRACE_S = 30.0  # for processes that are told to end, before they are killed
_SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl


class ProcessException(Exception):  # noqa: N818 (PyTorch's name)
    """A process did not end well.

    Attributes:
        msg: what happened. error_index: of the process among those that were started. error_pid, pid: its number.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid, self.pid = msg, error_index, error_pid, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the text holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal, `signal_name`, or with another status than 0, `exit_code`."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _entry(fn: Any, index: int, args: tuple[Any, ...], errors: Any) -> None:
    if sys.platform == "linux":  # who is started does not outlive who started it
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGINT), 0, 0, 0)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():  # it ended while this process began, before it could be told of that
        raise SystemExit(1)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of one `start_processes`."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self._told: dict[int, str | None] = {}  # tracebacks that came; None from who ended without a word

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until something has happened, `timeout` seconds at most; True where all have ended.

        Args:
            grace_period: seconds that the others have, where one failed, before they are told to end, and again before they are killed
                (0 and 30 if it is None).

        Raises:
            ProcessRaisedException: one of them raised; the others have been ended.
            ProcessExitedException: one of them ended otherwise.
        """
        running = self._running()  # before the look at who failed: who ends in between is ready when it is waited for
        if self._failed() is None and running:
            self._listen(running, timeout)
        failed = self._failed()
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        self._end(0.0 if grace_period is None else grace_period, _GRACE_S if grace_period is None else grace_period)
        bad, told = self.processes[failed], self._told.get(failed)
        if told is not None:
            raise ProcessRaisedException(f"\n\n-- Process {failed} terminated with the following error:\n{told}", failed, bad.pid)
        if bad.exitcode >= 0:
            raise ProcessExitedException(f"process {failed} terminated with exit code {bad.exitcode}", failed, bad.pid, bad.exitcode)
        try:
            name = signal.Signals(-bad.exitcode).name
        except ValueError:  # one without a name
            name = str(-bad.exitcode)
        raise ProcessExitedException(f"process {failed} terminated with signal {name}", failed, bad.pid, bad.exitcode, name)

    def _running(self) -> list[int]:
        return [p.sentinel for p in self.processes if p.exitcode is None]

    def _failed(self) -> int | None:
        return next((i for i, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)

    def _end(self, before: float, after: float) -> None:
        """Ends all that still run: they have some seconds to do it themselves, and then some more."""
        self._wait(before)
        for p in self.processes:
            p.terminate()
        self._wait(after)
        for p in self.processes:
            p.kill()
            p.join()
        self._listen([], 0.0)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (running := self._running()):
            self._listen(running, left)

    def _listen(self, ends: list[int], timeout: float | None) -> None:
        """Waits for one of `ends` or for a traceback, which is taken: a long one fills its pipe, and who writes it would never end."""
        silent = {reader: i for i, reader in enumerate(self._errors) if i not in self._told}
        some: list[Any] = connection.wait([*ends, *silent], timeout) if ends or silent else []
        for ready in some:
            if ready in silent:
                try:
                    self._told[silent[ready]] = ready.recv()
                except (EOFError, OSError):  # it ended without a word, or in the middle of one
                    self._told[silent[ready]] = None


class SpawnContext(ProcessContext):
    """The processes of one `spawn`."""


def start_processes(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Calls `fn(i, *args)` in `nprocs` processes, i from 0; what they raise is raised here.

    Args:
        join: waits for their end. Otherwise the `ProcessContext` is returned, whose `join` does that.
        start_method: "fork", "spawn" or "forkserver".

    Raises:
        ProcessRaisedException: one of them raised. ProcessExitedException: one ended otherwise.
    """
    return _start(ProcessContext, fn, args, nprocs, join, daemon, start_method)


def spawn(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """See `start_processes`."""
    return _start(SpawnContext, fn, args, nprocs, join, daemon, start_method)


def _start(
    kind: type[ProcessContext], fn: Any, args: Any, nprocs: int, join: bool, daemon: bool, start_method: str
) -> ProcessContext | None:
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_entry, args=(fn, i, tuple(args), writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        errors.append(reader)
    made = kind(processes, errors)
    if not join:
        return made
    while not made.join():
        pass
    return None
