"""Messages between two processes over one socket, with the memory of tensors beside them.

    pack(value)  ->  bytes, and descriptors of memory  --socket-->  Parcel  -> open() -> the value

`multiprocessing` has its sender serve each descriptor from a thread, to whoever asks for it later: a sender that has ended, or was
killed, takes what it sent with it, and leaves a socket in the file system. Here descriptors travel with the message that needs
them; what is on its way belongs to the kernel. A parcel is opened by who needs its value: what is not wanted any more costs nothing,
and what can not be read spoils no other message.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import socket
import struct
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from flambeau._C import SharedMemory, Tensor
from flambeau._memory_format import strided
from flambeau.multiprocessing._sharing import reduce_tensor, segment_of, shared_copy

_HEAD = struct.Struct("<iqqi")  # three numbers of the user's, and how many descriptors follow
_TOGETHER = 200  # descriptors in one call; Linux takes 253
_BY_VALUE_BYTES = 1 << 16  # up to here a copy costs less than memory of its own, and takes no descriptor
_opening = threading.local()


class _Passed:
    """In a message, the place of a descriptor among those that came with it."""

    def __init__(self, index: int) -> None:
        self.index = index

    def detach(self) -> int:
        """A descriptor that is the caller's."""
        parcel: Parcel = _opening.parcel
        return parcel.copied(self.index)


class Packed(NamedTuple):
    """A value that is ready to be sent."""

    data: io.BytesIO  # begins with room for the head
    memory: list[SharedMemory]


class _Memory:
    """The memory that goes with a message, and how tensors come into it."""

    def __init__(self, move: bool) -> None:
        self.move = move
        self.segments: list[SharedMemory] = []

    def reduce(self, x: Tensor) -> Any:
        if self.move and segment_of(x) is None and x.layout is strided and not x.is_meta and (x.is_leaf or not x.requires_grad):
            if x.numel() * x.element_size() > _BY_VALUE_BYTES:
                x = shared_copy(x)
        return reduce_tensor(x, self._handle)

    def _handle(self, segment: SharedMemory) -> _Passed:
        for index, known in enumerate(self.segments):
            if known is segment:
                return _Passed(index)
        self.segments.append(segment)
        return _Passed(len(self.segments) - 1)


def pack(value: Any, move: bool = False) -> Packed:
    """Pickles a value.

    Args:
        move: tensors of more than 64 KiB get shared memory of their own, into which they are copied. Otherwise tensors that are not
            shared are in the bytes.

    Raises:
        OSError: no memory or no descriptor is left.
    """
    data = io.BytesIO()
    data.write(bytes(_HEAD.size))
    memory = _Memory(move)
    packer = ForkingPickler(data, pickle.HIGHEST_PROTOCOL)
    packer.dispatch_table = {**packer.dispatch_table, Tensor: memory.reduce}
    packer.dump(value)
    return Packed(data, memory.segments)


class Parcel:
    """A value that came, not yet unpickled."""

    def __init__(self, data: memoryview, fds: list[int]) -> None:
        self._data, self._fds = data, fds

    def copied(self, index: int) -> int:
        """A descriptor that came with it, once more: the caller's, who may close it, and two tensors may lie in one memory."""
        try:
            return os.dup(self._fds[index])
        except OSError as error:
            raise OSError(error.errno, _too_many_files(len(self._fds))) from error

    def open(self) -> Any:
        """The value."""
        _opening.parcel = self
        try:
            return pickle.loads(self._data)
        finally:
            _opening.parcel = None
            self.close()

    def close(self) -> None:
        """Lets go of the memory that came with it."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class Channel:
    """One end of a connection of `multiprocessing.Pipe()`, in both directions. Any thread may write, one reads."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._socket.settimeout(None)  # whatever `socket.setdefaulttimeout` says
        self._writing = threading.Lock()

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
        return int(self._connection.fileno())

    def write(self, head: tuple[int, int, int], packed: Packed) -> None:
        """Sends three numbers and a value.

        Raises:
            OSError: the other end is closed.
        """
        data, fds = packed.data.getbuffer(), [segment.fd for segment in packed.memory]
        _HEAD.pack_into(data, 0, *head, len(fds))
        with self._writing:
            self._connection.send_bytes(data)
            for at in range(0, len(fds), _TOGETHER):
                socket.send_fds(self._socket, [b"\0"], fds[at : at + _TOGETHER])

    def read(self) -> tuple[tuple[int, int, int], Parcel]:
        """Waits for the next message.

        Raises:
            EOFError, OSError: the other end is closed; or this process can not open as many files as came.
        """
        data = memoryview(self._connection.recv_bytes())
        *head, count = _HEAD.unpack_from(data)
        parcel = Parcel(data[_HEAD.size :], [])
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        for at in range(0, count, _TOGETHER):
            wanted = min(_TOGETHER, count - at)
            mark, fds, _, _ = socket.recv_fds(self._socket, 1, wanted, flags)
            parcel._fds += fds
            if not mark:
                raise EOFError
            if len(fds) < wanted:
                raise OSError(errno.EMFILE, _too_many_files(count))
        return (head[0], head[1], head[2]), parcel

    def waiting(self) -> bool:
        """Whether `read` would not wait."""
        return bool(self._connection.poll(0))

    def close(self) -> None:
        """The other end notices."""
        self._connection.close()
        self._socket.close()


def _too_many_files(count: int) -> str:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"{count} tensors came in shared memory, each by a descriptor, and this process may open {limit} files: let go of tensors that "
        "came before (or keep copies of them, by clone()), or raise `ulimit -n`"
    )
