"""Tensors in memory that several processes see.

Note [Shared memory]
`share_memory_` moves a storage, with all its views, into a memory file without a name (memfd). A child that is forked has it
anyway; to others goes the file's descriptor, by Python's own `multiprocessing`, instead of the bytes. So nothing is left in the file
system, and the memory goes with the last process that holds it. What others write is not noticed by autograd's checks, as
with NumPy's memory.

A tensor that is sent is moved first, by the thread that sends it. Threads of `multiprocessing`, which feed queues and pools, do not:
ops run beside them without the GIL, in the memory that would move. Our queues and pools therefore have all tensors moved before they
take a value (`share_within`). What can not be moved, since NumPy looks at it, travels by value. A small tensor has its bytes beside
the descriptor, for who receives it when the sender has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Callable
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from flambeau import _C
from flambeau._C import SharedMemory, Tensor, ops
from flambeau._from_data import frombuffer
from flambeau._memory_format import strided

_BESIDE_BYTES = 1 << 16  # up to here the bytes go with the descriptor

# By the file, so that what comes back, or comes twice, is the same memory at the same place.
_known: weakref.WeakValueDictionary[tuple[int, int], SharedMemory] = weakref.WeakValueDictionary()


def _file(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _made(size: int) -> SharedMemory:
    """New memory.

    Raises:
        OSError: no memory or no descriptor is left.
    """
    if size > (left := _C.available_memory()):  # nothing limits such files: the kernel would end processes to fill one
        raise OSError(errno.ENOMEM, f"{size} bytes of shared memory; {left} bytes are available")
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.posix_fallocate(fd, 0, size)  # now: where there is none left, the first write would end the process
        key = _file(fd)
    except BaseException:
        os.close(fd)
        raise
    memory = SharedMemory(fd, size)
    _known[key] = memory
    return memory


def segment_of(x: Tensor) -> SharedMemory | None:
    """Where x's storage lies, if it is shared."""
    owner = _C.buffer_of(x)
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, SharedMemory) else None


def share(x: Tensor) -> None:
    """Moves x's storage into shared memory, unless it is there.

    Raises:
        ArgumentError: a NumPy array or another library looks at the memory, which would move; x is sparse, or on meta.
        OSError: no memory or no descriptor is left.
    """
    if x.layout is not strided:
        raise _C.ArgumentError(f"share_memory_: the tensor {list(x.shape)} is sparse; share its indices and values, and make it of these")
    if x.is_meta:
        raise _C.ArgumentError(f"share_memory_: the tensor {list(x.shape)} is on meta, where there is no memory; expected the CPU")
    if segment_of(x) is None:
        _C.move_to_buffer(x, _made(max(1, x.untyped_storage().nbytes())))


def shared_copy(x: Tensor) -> Tensor:
    """A copy of x, row-major, that has shared memory to itself; what a dataset holds stays where it is.

    Raises:
        OSError: no memory or no descriptor is left.
    """
    memory = _made(max(1, x.numel() * x.element_size()))
    y = frombuffer(memory, dtype=x.dtype, count=len(memory) // x.element_size()).as_strided(tuple(x.shape), _row_major(x.shape), 0)
    y.copy_(x.detach())
    y.data_ptr()  # now, if the thread records
    for name, value in x.__dict__.items():
        setattr(y, name, value)
    return y.requires_grad_() if x.requires_grad else y


def _row_major(shape: Any) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _refuse_history(x: Tensor) -> None:
    if x.requires_grad and not x.is_leaf:  # the other process would take gradients that never come here
        raise _C.AutogradError(f"a tensor {list(x.shape)} with a history can not be sent to another process; send .detach() of it")


def _move(x: Tensor) -> None:
    """Moves x's storage into shared memory, where that may be."""
    if x.layout is strided and not x.is_meta and x._storage_bytes() and segment_of(x) is None:
        with contextlib.suppress(_C.ArgumentError):  # a NumPy array looks at it
            share(x)


class _Mover(pickle.Pickler):
    """Moves all tensors that are in a value; what it writes is for nobody."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            _refuse_history(value)
            _move(value)
            if value.layout is strided:
                return True
        # Connections and their kind are sent once: each time makes a descriptor that waits to be fetched.
        return type(value) in ForkingPickler._extra_reducers or None  # type: ignore[attr-defined]


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


def share_within(value: Any) -> None:
    """Moves the tensors that are in a value into shared memory, as Note [Shared memory] says.

    Raises:
        AutogradError: one has a history.
        OSError: no memory or no descriptor is left.
        Exception: the value can not be pickled.
    """
    _Mover(_Nowhere(), pickle.HIGHEST_PROTOCOL, buffer_callback=lambda buffer: None).dump(value)


def _duplicate(segment: SharedMemory) -> Any:
    return DupFd(segment.fd)


def reduce_tensor(x: Tensor, handle: Callable[[SharedMemory], Any] = _duplicate) -> Any:
    """How x is pickled for another process. `handle(segment)` makes what stands for a descriptor there, by its `detach()`."""
    _refuse_history(x)
    segment = segment_of(x)
    if segment is None:
        return x.__reduce_ex__(2)
    where = x.dtype, tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.requires_grad, dict(x.__dict__)
    return _rebuild, (handle(segment), len(segment), *where)


def _rebuild(
    handle: Any, size: int, dtype: Any, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:  # fmt: skip
    fd = handle.detach()
    key = _file(fd)
    segment = _known.get(key)
    if segment is None:
        segment = _known[key] = SharedMemory(fd, size)
    else:
        os.close(fd)
    if size >= dtype.itemsize:
        x = frombuffer(segment, dtype=dtype, count=size // dtype.itemsize).as_strided(shape, stride, offset)
    else:  # memory has a byte at least, a storage may have none
        x = ops.empty(0, dtype=dtype).as_strided(shape, stride, offset)
        _C.move_to_buffer(x, segment)
    for name, value in attributes.items():
        setattr(x, name, value)
    return x.requires_grad_() if requires_grad else x


def _reduce_moved(x: Tensor) -> Any:
    """How `multiprocessing` pickles x."""
    _refuse_history(x)
    if not threading.current_thread().daemon:
        _move(x)
    rebuild, args, *_ = reduce_tensor(x)
    if rebuild is not _rebuild:
        return rebuild, args
    small = x.numel() * x.element_size() <= _BESIDE_BYTES
    return _received, (args, x.__reduce_ex__(2)[:2] if small else None)


def _received(shared: tuple[Any, ...], value: tuple[Any, tuple[Any, ...]] | None) -> Tensor:
    try:
        return _rebuild(*shared)
    except (EOFError, ConnectionError, FileNotFoundError) as error:
        if value is None:
            raise RuntimeError(
                f"a tensor {list(shared[3])} came in shared memory, and the process that sent it has ended; it has to live until what it "
                "sends is received, or to send arrays (.numpy()), which travel by value"
            ) from error
        rebuild, args = value
        made: Tensor = rebuild(*args)
        return made


ForkingPickler.register(Tensor, _reduce_moved)
