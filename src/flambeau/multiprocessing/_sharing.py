"""Tensors in memory that several processes see.

Note [Shared memory]
`share_memory_` moves a storage, with all its views, into a memory file without a name (memfd). A child that is forked has it
anyway; to others goes the file's descriptor, by Python's own `multiprocessing`, instead of the bytes. So nothing is left in the file
system, and the memory goes with the last process that holds it. What others write is not noticed by autograd's checks, as
with NumPy's memory. Tensors that were not moved travel by value: who receives one needs no longer that the sender lives.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._tensor import frombuffer


class Segment(mmap.mmap):
    """Memory of a file without a name, which is open as long as this lives."""

    fd: int

    @classmethod
    def make(cls, size: int) -> Segment:
        """A new one of `size` bytes.

        Raises:
            OSError: no memory or no descriptor is left.
        """
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        try:
            os.ftruncate(fd, size)
            return cls.of(fd, size)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def of(cls, fd: int, size: int) -> Segment:
        """The memory of a file that was made elsewhere; `fd` is closed with it."""
        made = cls(fd, size)
        made.fd = fd
        weakref.finalize(made, os.close, fd).atexit = False
        status = os.fstat(fd)
        _known[status.st_dev, status.st_ino] = made
        return made


# By the file, so that what comes back, or comes twice, is the same memory at the same place.
_known: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()


def segment_of(x: Tensor) -> Segment | None:
    """Where x's storage lies, if it is shared."""
    owner = _C.buffer_of(x)
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, Segment) else None


def share(x: Tensor) -> None:
    """Moves x's storage into shared memory, unless it is there.

    Raises:
        ArgumentError: a NumPy array or another library looks at the memory, which would move; x is a meta tensor.
    """
    if segment_of(x) is None:
        _C.move_to_buffer(x, Segment.make(max(1, x.untyped_storage().nbytes())))


def _reduce(x: Tensor) -> Any:
    segment = None if x.requires_grad and not x.is_leaf else segment_of(x)
    if segment is None:
        return x.__reduce_ex__(2)
    where = x.dtype, tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.requires_grad, dict(x.__dict__)
    return _rebuild, (DupFd(segment.fd), len(segment), *where)


def _rebuild(
    handle: Any, size: int, dtype: Any, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:  # fmt: skip
    fd = handle.detach()
    status = os.fstat(fd)
    segment = _known.get((status.st_dev, status.st_ino))
    if segment is None:
        segment = Segment.of(fd, size)
    else:
        os.close(fd)
    x = frombuffer(segment, dtype=dtype, count=size // dtype.itemsize).as_strided(shape, stride, offset)
    for name, value in attributes.items():
        setattr(x, name, value)
    return x.requires_grad_() if requires_grad else x


ForkingPickler.register(Tensor, _reduce)
