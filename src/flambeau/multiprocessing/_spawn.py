"""Processes that call one function, and hand what they raise to who waits for them."""

from __future__ import annotations

import multiprocessing as _multiprocessing
import traceback as _traceback
from multiprocessing import connection as _connection
from typing import Any


class ProcessRaisedException(Exception):
    """A process that `spawn` started raised; the text holds its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exitcode: int | None = None) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid, self.exitcode = msg, error_index, error_pid, exitcode


class ProcessExitedException(ProcessRaisedException):
    """A process that `spawn` started ended with another status than 0."""


def _entry(fn: Any, index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.send(_traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of one `spawn`."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self._told: dict[int, str | None] = {}  # tracebacks that came; None from who ended without a word

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until all have ended; True where they have.

        Raises:
            ProcessRaisedException: one of them raised; the others are ended.
        """
        running = [p.sentinel for p in self.processes if p.exitcode is None]
        self._listen(running, timeout)
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        self._listen([], 0.0)
        bad, told = self.processes[failed], self._told.get(failed)
        if told is not None:
            raise ProcessRaisedException(f"process {failed} of spawn raised:\n{told}", failed, bad.pid, bad.exitcode)
        raise ProcessExitedException(f"process {failed} of spawn ended with status {bad.exitcode}", failed, bad.pid, bad.exitcode)

    def _listen(self, ends: list[int], timeout: float | None) -> None:
        """Waits for one of `ends` or for a traceback, which is taken: a long one fills its pipe, and who writes it would never end."""
        silent = {reader: i for i, reader in enumerate(self._errors) if i not in self._told}
        for ready in _connection.wait([*ends, *silent], timeout) if ends or silent else ():
            if ready in silent:
                try:
                    self._told[silent[ready]] = ready.recv()
                except (EOFError, OSError):  # it ended without a word, or in the middle of one
                    self._told[silent[ready]] = None


def start_processes(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Calls `fn(i, *args)` in `nprocs` processes, i from 0; what they raise is raised here."""
    context: Any = _multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_entry, args=(fn, i, tuple(args), writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        errors.append(reader)
    made = ProcessContext(processes, errors)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """See `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
