"""`torch.multiprocessing`: Python's own, through which tensors travel by value; and `spawn`."""

from __future__ import annotations

import multiprocessing as _multiprocessing
import traceback as _traceback
from multiprocessing import *  # noqa: F403
from multiprocessing import connection as _connection
from typing import Any

__all__ = ["ProcessContext", "ProcessRaisedException", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]
__all__ += _multiprocessing.__all__


class ProcessRaisedException(Exception):
    """A process that `spawn` started raised; the text holds its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exitcode: int | None = None) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid, self.exitcode = msg, error_index, error_pid, exitcode


class ProcessExitedException(ProcessRaisedException):
    """A process that `spawn` started ended with another status than 0."""


def get_all_sharing_strategies() -> set[str]:
    """How tensors travel: by value alone."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The name that PyTorch gives to its default."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Tensors travel by value, whichever way to share them is asked for.

    Raises:
        ValueError: PyTorch has no such way.
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise ValueError(f"set_sharing_strategy: {new_strategy!r}; expected 'file_descriptor' or 'file_system'")


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

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until all have ended; True where they have.

        Raises:
            ProcessRaisedException: one of them raised; the others are ended.
        """
        running = {p.sentinel: i for i, p in enumerate(self.processes) if p.exitcode is None}
        _connection.wait(running, timeout=timeout) if running else None
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        bad = self.processes[failed]
        try:
            told = self._errors[failed].recv()
        except EOFError:  # it ended without a word
            told = None
        if told is not None:
            raise ProcessRaisedException(f"process {failed} of spawn raised:\n{told}", failed, bad.pid, bad.exitcode)
        raise ProcessExitedException(f"process {failed} of spawn ended with status {bad.exitcode}", failed, bad.pid, bad.exitcode)


def start_processes(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
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


def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """See `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
