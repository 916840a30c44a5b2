"""Tensors whose memory is a file's."""

from __future__ import annotations

import mmap
import os
from typing import Any

from flambeau import _C
from flambeau._C import ArgumentError, Tensor, ops
from flambeau._from_data import frombuffer
from flambeau._no_tensor import wants_tensors

__all__ = ["from_file"]


class FilePages(mmap.mmap):
    """The memory of a file; `filename` is its path where changes are written back to it."""

    filename: str | None = None

    @classmethod
    def of(cls, handle: int, nbytes: int, path: Any, shared: bool) -> FilePages:
        """The first `nbytes` bytes of an open file."""
        pages = cls(handle, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        pages.filename = os.fsdecode(path) if shared else None
        return pages


@wants_tensors
def from_file(
    filename: str | os.PathLike[str], shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The first `size` elements of a file as a tensor, without reading them before they are used.

    Args:
        shared: True: what is written to the tensor is written to the file, which is made where there is none, and longer where it is too
            short. Otherwise the file stays as it is.
        dtype: of the elements, by default that of new tensors.

    Raises:
        RuntimeError: the file is not there, or shorter, and `shared` is not True; it can not be as long; another device than the CPU.
    """
    kind = _C.get_default_dtype() if dtype is None else dtype
    count = size or 0
    if count < 0:
        raise ArgumentError(f"from_file: size = {size}; expected at least 0")
    if device is not None and _C.device(device).type != "cpu":
        raise ArgumentError(f"from_file: device = {device}; a file's memory is on the CPU")
    bytes_of_all = count * kind.itemsize
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        handle = os.open(filename, flags, 0o666)
    except OSError as error:
        raise RuntimeError(f"from_file: {error}") from error
    try:
        held = os.fstat(handle).st_size
        if held < bytes_of_all:
            if not shared:
                raise ArgumentError(f"from_file: {os.fspath(filename)} has {held} bytes; expected {bytes_of_all}, {count} of {kind}")
            os.truncate(handle, bytes_of_all)
        if not bytes_of_all:
            return ops.empty((0,), dtype=kind).requires_grad_(requires_grad)  # type: ignore[no-any-return]
        pages = FilePages.of(handle, bytes_of_all, filename, bool(shared))
    except OSError as error:
        raise RuntimeError(f"from_file: {os.fspath(filename)} can not have {bytes_of_all} bytes: {error}") from error
    finally:
        os.close(handle)
    return frombuffer(pages, dtype=kind, count=count).requires_grad_(requires_grad)
