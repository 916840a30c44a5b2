"""Ranks that are processes, which send each other values over MPI.

    worker (the thread that calls `step`)                                                    another process
        put(rank, key, value)   Isend header, Isend each tensor's memory, ring its bell  ->    postman
        take(rank, key)  <- filed by call and key by the postman (a thread):
                            Improbe header, Irecv into new tensors                       <-    worker

The worker never waits for a send, and the postman receives whatever arrives, whether or not somebody waits for it. So no two processes
wait for each other to receive. Nobody waits inside of MPI, which would burn a processor and could not be ended: the postman sleeps until
its bell rings, and polls where it must (`_watch.py`).

A header is JSON: call, key, structure and specs of the tensors (`_wire.py`). Messages of one sender arrive in the order of its sends,
so the memory that follows a header needs no name. Calls have numbers, which all processes count alike. What arrives early is kept for
its call, what arrives late is dropped.

How a program ends:

* A rank that fails tells all others ("failed"), whose `take` is cancelled.
* A rank whose program ends says so ("bye"); who is in a later call, or begins one, fails. At its end each process waits for all others'
  bye, so that nothing is on its way when MPI ends.
* A process that is killed says nothing: `_watch.py` notices.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.pipeline._stage import Cancelled
from flambeau.pipeline._transport import PipelineError
from flambeau.pipeline._watch import Bell, Watch, identity
from flambeau.pipeline._wire import Packed, empty, unpack

_HEADER, _DATA = 1, 2  # tags
_PIECE_BYTES = 2**30  # of one message; counts of some MPIs end at 2^31
_SPINS, _PAUSE_S, _POLLING_S, _SLEEPING_S = 10, 20e-6, 500e-6, 10e-3  # polls without a pause; pauses between two


class _Outgoing:
    """A message on its way: its memory must stay until all parts are gone."""

    def __init__(self, to: int, header: dict[str, Any], tensors: list[Tensor]) -> None:
        self.to, self.tensors, self.call = to, tensors, header.get("call")
        self.versions = [_C.version_of(x) for x in tensors]
        self.header = bytearray(json.dumps(header, separators=(",", ":")).encode())
        self.requests: list[Any] = []

    def start(self, mpi: Any, comm: Any) -> bool:
        """Begins to send; whether that was all."""
        self.requests.append(comm.Isend([self.header, mpi.BYTE], self.to, _HEADER))
        for x in self.tensors:
            self.requests += [comm.Isend([part, mpi.BYTE], self.to, _DATA) for part in _parts(mpi, x)]
        return bool(mpi.Request.Testall(self.requests))

    def changed(self) -> bool:
        """Whether a tensor was written meanwhile."""
        return any(_C.version_of(x) != version for x, version in zip(self.tensors, self.versions))


class _Incoming:
    """A message that is arriving: first its header, then its tensors."""

    def __init__(self, mpi: Any, source: int, message: Any, size: int) -> None:
        self.source, self.text, self.tensors = source, bytearray(size), []  # type: int, bytearray, list[Tensor]
        self.requests = [message.Irecv([self.text, mpi.BYTE])]
        self.header: dict[str, Any] | None = None

    def read_header(self, mpi: Any, comm: Any) -> None:
        self.header = json.loads(self.text)
        self.tensors = [empty(spec) for spec in self.header.get("specs", ())]
        self.requests = [comm.Irecv([part, mpi.BYTE], self.source, _DATA) for x in self.tensors for part in _parts(mpi, x)]

    def value(self) -> Any:
        """What has arrived, or the error that it is for who takes it."""
        if self.header is None or "value" not in self.header:
            return None
        try:
            return unpack(self.header["value"], self.tensors, self.header["specs"])
        except TypeError as error:
            return _Unreadable(error)


class _Unreadable:
    """In place of a value that can not be made here."""

    def __init__(self, error: TypeError) -> None:
        self.error = error


def _parts(mpi: Any, x: Tensor) -> list[Any]:
    """A contiguous tensor's memory, in messages of a size that any MPI sends."""
    address, size = x.data_ptr(), x.numel() * x.element_size()
    return [mpi.buffer.fromaddress(address + at, min(_PIECE_BYTES, size - at)) for at in range(0, size, _PIECE_BYTES)]


class _Call:
    """A step of all ranks, as one of them sees it; see `ProcessCall`."""

    def __init__(self, transport: MPITransport, number: int, what: str) -> None:
        self._transport, self.number, self.what = transport, number, what
        self.values: dict[Hashable, Any] = {}
        self.reason: PipelineError | None = None
        self.cancelled = False

    def put(self, rank: int, key: Hashable, value: Any) -> None:
        """Sends a value to a rank; the worker goes on at once."""
        if rank == self._transport.rank:
            self._transport._file(self, key, value)
            return
        packed = Packed(value)
        header = {"call": self.number, "what": self.what, "key": key, "value": packed.structure, "specs": packed.specs}
        self._transport._send(_Outgoing(rank, header, packed.tensors))

    def take(self, rank: int, key: Hashable) -> Any:
        """The value under a key; waits for it."""
        return self._transport._take(self, key)

    def cancel(self) -> None:
        """Ends the call in this process."""
        self._transport._cancel(self, None)

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks, and ends the call in this process."""
        self.cancel()
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        self._transport._tell({"failed": f"rank {self._transport.rank} failed: {text}", "call": self.number})

    def failure(self) -> PipelineError:
        """What another rank said, or what became of it."""
        return self.reason or PipelineError(f"the {self.what} was cancelled", self._transport.rank)

    def close(self) -> None:
        """Ends the call, whose messages have all been taken."""
        self._transport._close(self)


class MPITransport:
    """The processes of an MPI job as ranks of pipelines: `mpiexec -n 4 python train.py`.

    Every process runs the same program and makes one of these, and as many pipelines with it as it likes. Needs `flambeau[mpi]`.

    Args:
        comm: an mpi4py communicator, whose processes are the ranks; by default all of the job. It is duplicated.
        timeout: after how many seconds without a sign a process on another machine counts as gone. One on this machine is noticed at
            once when it ends, and may be silent as long as it likes.

    Attributes:
        rank: that of this process.
        size: how many ranks there are.

    Raises:
        ImportError: mpi4py, or an MPI, is not installed.
        RuntimeError: this MPI can not be used by several threads.

    A program:

        transport = MPITransport()
        pipe = DistributedPipeline(model, transport=transport, micro_batches=8)
        optimizer = fl.optim.Adam(pipe.local_parameters())
        loss = pipe.step(x, target, loss_fn)
    """

    def __init__(self, comm: Any = None, *, timeout: float = 4.0) -> None:
        self._mpi = _import_mpi()
        self._comm = (self._mpi.COMM_WORLD if comm is None else comm).Dup()
        self.rank, self.size = int(self._comm.Get_rank()), int(self._comm.Get_size())
        bell = Bell()
        self._watch = Watch(self.rank, self._identities(bell), bell, timeout)
        _forget_shared_memory()
        self._arrived = threading.Condition()  # guards the rest
        self._number = 0  # of the last call that was opened here
        self._open: _Call | None = None
        self._early: dict[int, list[tuple[int, dict[str, Any], Any]]] = {}
        self._gone: dict[int, tuple[int, PipelineError]] = {}  # rank -> its last call, what to say about it
        self._dead: set[int] = set()  # those of them that did not say goodbye
        self._sending: deque[_Outgoing] = deque()
        self._receiving: list[_Incoming] = []
        self._lost: list[Any] = []  # messages to and from the dead, whose memory MPI may still have
        self._stop = self._closed = self._abnormal = False
        self._thread = threading.Thread(target=self._work, name="flambeau-mpi", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def __enter__(self) -> MPITransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MPITransport: rank {self.rank} of {self.size}>"

    def _identities(self, bell: Bell) -> list[dict[str, Any]]:
        """Of all processes, by rank."""
        text = json.dumps(identity(bell)).encode()
        own, every = bytearray(text.ljust(512)), bytearray(512 * self.size)
        self._comm.Allgather([own, self._mpi.BYTE], [every, self._mpi.BYTE])
        return [json.loads(every[512 * rank : 512 * (rank + 1)]) for rank in range(self.size)]

    # ---- calls, as the worker sees them

    def open(self, what: str) -> _Call:
        """Begins a call; see `Transport`."""
        with self._arrived:
            if self._closed:
                raise RuntimeError(f"{what}: the MPITransport is closed; expected one that is open")
            if self._open is not None:
                raise RuntimeError(f"{what}: a {self._open.what} is under way in this process; expected one call after the other")
            self._number += 1
            self._open = call = _Call(self, self._number, what)
            for source, header, value in self._early.pop(call.number, ()):
                self._deliver(source, header, value)
            self._check_gone()
        return call

    def _close(self, call: _Call) -> None:
        with self._arrived:
            if self._open is call:
                self._open = None
            call.values.clear()

    def _take(self, call: _Call, key: Hashable) -> Any:
        with self._arrived:
            while not call.cancelled and key not in call.values:
                self._arrived.wait()
            if call.cancelled:
                raise Cancelled
            value = call.values.pop(key)
        if isinstance(value, _Unreadable):
            raise value.error
        return value

    def _file(self, call: _Call, key: Hashable, value: Any) -> None:
        with self._arrived:
            call.values[key] = value
            self._arrived.notify_all()

    def _cancel(self, call: _Call, reason: PipelineError | None) -> None:
        with self._arrived:
            if not call.cancelled:
                call.cancelled, call.reason = True, reason
            call.values.clear()
            self._arrived.notify_all()

    def _send(self, message: _Outgoing) -> None:
        """Begins to send a message; the postman sees to the rest of one that takes longer."""
        if message.to in self._dead:
            return
        sent = message.start(self._mpi, self._comm)
        self._watch.ring(message.to)
        if not sent:
            self._sending.append(message)
            self._watch.ring(self.rank)

    def _tell(self, header: dict[str, Any]) -> None:
        """Sends a header to all others that are there."""
        for rank in range(self.size):
            if rank != self.rank and rank not in self._dead:
                self._send(_Outgoing(rank, header, []))

    # ---- the postman

    def _work(self) -> None:
        """The thread's whole life."""
        idle = 0  # polls since something happened: MPI may take some to see what has been sent
        try:
            while not self._stop:
                busy = [self._finish_sends(), self._receive()]
                self._look_around()
                moving = self._sending or self._receiving or (self._open and not self._watch.all_here)
                idle = 0 if any(busy) else idle + 1
                pause = 0.0 if idle < _SPINS else min(_PAUSE_S * 2 ** min(idle - _SPINS, 20), _POLLING_S if moving else _SLEEPING_S)
                if self._watch.wait(pause):
                    idle = 0
        except BaseException as error:
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            with self._arrived:
                self._abnormal = True
                self._gone[self.rank] = 0, PipelineError(f"rank {self.rank} can not receive any more: {text}", self.rank)
                self._check_gone()

    def _finish_sends(self) -> bool:
        busy = False
        for _ in range(len(self._sending)):
            message = self._sending.popleft()
            if message.to in self._dead:
                self._lost.append(message)
            elif not self._mpi.Request.Testall(message.requests):
                self._sending.append(message)
            else:
                busy = True
                self._check_sent(message)
        return busy

    def _check_sent(self, message: _Outgoing) -> None:
        call = self._open
        if call is not None and call.number == message.call and message.changed():
            text = (
                f"rank {self.rank} changed a tensor by an in-place operation while it was sent to rank {message.to}; have the layer that "
                "does so work out of place"
            )
            self._cancel(call, PipelineError(text, self.rank))
            self._tell({"failed": text, "call": call.number})

    def _receive(self) -> bool:
        busy = self._probe()
        left = []
        for message in self._receiving:
            if message.source in self._dead:
                self._lost.append(message)
                continue
            if not self._mpi.Request.Testall(message.requests):
                left.append(message)
                continue
            busy = True
            if message.header is None:
                message.read_header(self._mpi, self._comm)
                left.append(message)
            else:
                with self._arrived:
                    self._deliver(message.source, message.header, message.value())
        self._receiving = left
        return busy

    def _probe(self) -> bool:
        """Begins to receive the next message, unless a header is arriving: memory is received in the order of headers."""
        if any(message.header is None for message in self._receiving):
            return False
        status = self._mpi.Status()
        message = self._comm.Improbe(self._mpi.ANY_SOURCE, _HEADER, status)
        if message is None:
            return False
        self._receiving.append(_Incoming(self._mpi, status.Get_source(), message, status.Get_count(self._mpi.BYTE)))
        return True

    def _deliver(self, source: int, header: dict[str, Any], value: Any) -> None:
        """Files what has arrived. The lock is held."""
        self._watch.heard(source)
        if "bye" in header:
            self._gone[source] = header["call"], PipelineError(f"rank {source} {header['bye']}", source)
            self._check_gone()
            return
        number, call = header.get("call", 0), self._open
        if number > self._number:
            self._early.setdefault(number, []).append((source, header, value))
        elif call is None or number != call.number:
            return  # of a call that has ended
        elif "failed" in header:
            self._cancel(call, PipelineError(header["failed"], source))
        elif header["what"] != call.what:
            text = f"rank {source} is in its {header['what']}, rank {self.rank} in its {call.what}; expected all in the same"
            self._cancel(call, PipelineError(text, source))
        else:
            self._file(call, _key(header["key"]), value)

    def _look_around(self) -> None:
        """Says that this process is there, where others can not see it, and notes who is not there any more."""
        for rank in self._watch.due():
            self._send(_Outgoing(rank, {"beat": 1}, []))
        for rank, text in self._watch.gone():
            with self._arrived:
                if rank in self._gone and self._closed:
                    continue  # both have said goodbye
                self._abnormal = True
                self._dead.add(rank)
                self._gone.setdefault(rank, (0, PipelineError(text, rank)))
                self._check_gone()

    def _check_gone(self) -> None:
        """Ends the open call if a rank that it needs is gone. The lock is held."""
        call = self._open
        for last, reason in self._gone.values():
            if call is not None and last < call.number:
                self._cancel(call, reason)
        self._arrived.notify_all()

    # ---- the end

    def close(self) -> None:
        """Says goodbye, waits until all other processes have, and ends the thread. Called when the program ends, too.

        If a process was killed, MPI can not end as it should: then a program's exit status is 1, and what it registered with `atexit`
        before the transport was made is not called.
        """
        if self._closed:
            return
        self._closed = True
        self._tell({"bye": _how_it_ends(), "call": self._number})
        try:
            with self._arrived:
                while self._thread.is_alive() and self._is_awaited():
                    self._arrived.wait(0.05)
        except BaseException:
            self._abnormal = True
            raise
        finally:
            self._stop = True
            self._watch.ring(self.rank)
            self._thread.join()
            self._watch.close()
        if not self._abnormal:
            self._comm.Free()
            atexit.unregister(self._end)

    def _end(self) -> None:
        """The end of the program. MPI's own would wait for those that were killed, and its abort would lose what others have printed."""
        try:
            self.close()
        finally:
            if self._abnormal:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1)

    def _is_awaited(self) -> bool:
        """Whether something is still to be sent or to arrive."""
        return len(self._gone) < self.size - 1 or bool(self._sending or self._receiving)


def _key(key: Any) -> Hashable:
    """As it was before JSON made a list of it."""
    return tuple(_key(part) for part in key) if isinstance(key, list) else key


def _how_it_ends() -> str:
    error = getattr(sys, "last_value", None)  # what ended the program
    if error is None:
        return "has ended its program, or closed its transport"
    return "has ended its program by " + "".join(traceback.format_exception_only(type(error), error)).strip()


def _forget_shared_memory() -> None:
    """Removes the name of MPICH's shared memory, which all processes have opened by now.

    MPICH does that when MPI ends, so what a killed job had would stay until the machine is started again.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(maxsplit=5)[-1].strip() for line in file}
    for path in paths:
        if path.startswith("/dev/shm/mpich_shm_"):
            with suppress(FileNotFoundError):  # another process was first
                os.unlink(path)


def _import_mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"MPITransport needs mpi4py and an MPI ({error}); install them with: pip install 'flambeau[mpi]'") from None
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError("MPITransport: MPI was started without threads; expected MPI.THREAD_MULTIPLE, mpi4py's default")
    return MPI
