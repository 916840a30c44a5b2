"""How long a process has made no progress, as far as that is its own doing."""

from __future__ import annotations

import os
import pathlib
import time

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
GAP = 1.0  # more between two looks was a pause of the one who looks, and maybe of the process


class Patience:
    """Counts the seconds that a process and its children computed, or in which none of their threads had anything to do.

    A process that waits for a processor does neither: beside other work calls take minutes that end well.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.restart()

    def restart(self) -> None:
        self.spent, self.at, self.computed = 0.0, time.monotonic(), None

    def look(self) -> float:
        """The seconds since the last `restart`; it has to be asked more often than once in `GAP` seconds."""
        now = time.monotonic()
        passed, self.at = min(now - self.at, GAP), now
        idle, computed = state(self.pid)
        last = computed if self.computed is None else self.computed
        self.spent += passed if idle else min(max(computed - last, 0.0), passed)
        self.computed = computed
        return self.spent


def state(pid: int) -> tuple[bool, float]:
    """Whether all threads of a process and of its children sleep, and the processor's seconds that they have had."""
    sleeping, seconds = True, 0.0
    for one in (pid, *children(pid)):
        try:
            threads = [fields(stat) for stat in pathlib.Path(f"/proc/{one}/task").glob("*/stat")]
            sleeping = sleeping and all(thread[0] == "S" for thread in threads)
            seconds += sum(map(int, fields(pathlib.Path(f"/proc/{one}/stat"))[11:15])) * TICK
        except (OSError, IndexError):  # it has just ended
            sleeping = False
    return sleeping, seconds


def fields(stat: pathlib.Path) -> list[str]:
    """Those after the name, which may contain anything: the state is the first."""
    return stat.read_text().rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    try:
        return [int(child) for told in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in told.read_text().split()]
    except OSError:
        return []
