"""What a process hears of the others of its job beside MPI: that something was sent, and that one of them has ended.

On the same machine there is a bell, a datagram socket without a file: who sends over MPI rings, so that the other need not poll to be
quick. The kernel tells the end of a process there at once (`pidfd_open`), however it came, and nothing else counts: it may be stopped
in a debugger, or be busy in code that lets no other thread run.

A process on another machine is polled for, and taken for gone when it was silent for some seconds; so that it is heard of, it sends a
beat a few times in that span.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

_LOOK_S = 0.1  # between two looks at who has been silent


def _machine() -> str:
    """Equal where process ids and names of sockets mean the same; empty where that is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return " ".join([file.read().strip(), os.readlink("/proc/self/ns/pid"), os.readlink("/proc/self/ns/net")])
    except OSError:
        return ""


class Bell:
    """Wakes this process when others, or its own threads, ring.

    Example:
        >>> from flambeau.pipeline._watch import Bell
        >>> with Bell() as bell:
        ...     bell.ring(bell.name)
        ...     bell.rang()
        True
    """

    def __init__(self) -> None:
        self.name = f"flambeau-{os.getpid()}-{os.urandom(8).hex()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(f"\0{self.name}")

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ring(self, name: str) -> None:
        """Rings the bell of that name. One that rings already, or is gone, is none of the caller's business."""
        try:
            self.socket.sendto(b"!", f"\0{name}")
        except OSError:
            return

    def rang(self) -> bool:
        """Whether somebody has rung since the last time."""
        found = False
        while True:
            try:
                self.socket.recv(1)
            except BlockingIOError:
                return found
            found = True


def identity(bell: Bell) -> dict[str, Any]:
    """What others need to know of this process."""
    return {"pid": os.getpid(), "host": socket.gethostname()[:64], "machine": _machine(), "bell": bell.name}


class Watch:
    """Watches the processes of a job.

    Args:
        rank: that of this process.
        processes: by rank, as `identity` gives them.
        bell: of this process.
        timeout: seconds of silence after which a process on another machine is gone.

    Attributes:
        all_here: whether all processes are on this machine, and ring.

    Example:
        >>> from flambeau.pipeline._watch import Bell, Watch, identity
        >>> bell = Bell()
        >>> watch = Watch(0, [identity(bell)], bell, timeout=4.0)
        >>> watch.ring(0)
        >>> watch.wait(60.0)
        True
        >>> watch.gone()
        []
        >>> watch.close()
    """

    def __init__(self, rank: int, processes: Sequence[dict[str, Any]], bell: Bell, timeout: float) -> None:
        self._processes, self._bell, self._timeout = processes, bell, timeout
        self._poll = select.poll()
        self._poll.register(bell.socket, select.POLLIN)
        self._rank_of: dict[int, int] = {}  # by descriptor
        self._ended: list[int] = []
        self._heard: dict[int, float] = {}  # of ranks that are elsewhere
        self._looked = self._beat = 0.0
        self._names = {rank: bell.name}
        for other, process in enumerate(processes):
            if other != rank:
                self._add(other, process, processes[rank]["machine"])
        self.all_here = not self._heard

    def _add(self, rank: int, process: dict[str, Any], machine: str) -> None:
        if machine and process["machine"] == machine:
            try:
                descriptor = os.pidfd_open(process["pid"])
            except OSError:  # an old kernel, or one that was told to refuse
                pass
            else:
                self._rank_of[descriptor] = rank
                self._names[rank] = process["bell"]
                self._poll.register(descriptor, select.POLLIN)
                return
        self._heard[rank] = time.monotonic()

    def ring(self, rank: int) -> None:
        """Wakes a process, if it is on this machine."""
        if rank in self._names:
            self._bell.ring(self._names[rank])

    def wait(self, seconds: float) -> bool:
        """Returns when somebody rings, a process ends, or the time is over; below a millisecond only then. Says whether one has."""
        if seconds < 1e-3:
            time.sleep(seconds)
            return False
        woken = self._poll.poll(seconds * 1e3)
        for descriptor, _ in woken:
            if descriptor in self._rank_of:
                self._ended.append(self._rank_of[descriptor])
                self._forget(descriptor)
            else:
                self._bell.rang()
        return bool(woken)

    def heard(self, rank: int) -> None:
        """A message of a rank has arrived."""
        if rank in self._heard:
            self._heard[rank] = time.monotonic()

    def due(self) -> list[int]:
        """The ranks that should get a beat now."""
        now = time.monotonic()
        if not self._heard or now - self._beat < self._timeout / 8:
            return []
        self._beat = now
        return list(self._heard)

    def gone(self) -> list[tuple[int, str]]:
        """The ranks that have gone since the last look, and what to say of them."""
        found = [(rank, "has ended without a word, as one that was killed") for rank in self._ended]
        self._ended.clear()
        now = time.monotonic()
        if now - self._looked > _LOOK_S:
            self._looked = now
            for rank in [rank for rank, heard in self._heard.items() if now - heard > self._timeout]:
                del self._heard[rank]
                found.append((rank, f"has been silent for {self._timeout} s"))
        return [(rank, f"rank {rank} {self._process(rank)} {text}") for rank, text in found]

    def _process(self, rank: int) -> str:
        return f"(process {self._processes[rank]['pid']} on {self._processes[rank]['host']})"

    def _forget(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._rank_of[descriptor]
        os.close(descriptor)

    def close(self) -> None:
        """Gives all descriptors back."""
        for descriptor in list(self._rank_of):
            self._forget(descriptor)
        self._bell.socket.close()
