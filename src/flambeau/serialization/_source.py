"""A file's bytes by their place: mapped into memory, read when they are wanted, or in memory already.

    what       from                  memory of a tensor
    mapped     a path                the file's pages, copy-on-write; nothing is read before it is used
    read       a path, mmap=False    its own, filled by one read
    in memory  a file object         its own, copied

Every place that a file names goes through `read` or `tensor`, which check it against the bytes that exist.
"""

from __future__ import annotations

import mmap as _mmap
import os
import stat
import zlib
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.serialization._errors import FileFormatError

_PIECE = 1 << 20  # bytes that are read at a time where a checksum is wanted, which another thread computes meanwhile


class Source:
    """The bytes of one file."""

    def __init__(
        self, path: str, size: int, mapped: Any = None, file: Any = None, raw: bytes | None = None, goes_on: bool = False
    ) -> None:
        self.path, self.size = path, size
        self.goes_on = goes_on  # something else may follow; it begins at `end`, once that is known
        self.end = size
        self.mapped = mapped is not None
        self._mapped, self._file, self._raw = mapped, file, raw
        self._pages: Any = None  # the mapping as an array of bytes
        self._checker: Any = None  # a thread that computes checksums

    @classmethod
    def open(cls, path: str, mmap: bool, regular: bool = False) -> Source:
        """`regular`: the name comes from a file, so that it must not be a pipe or a device, which could block."""
        if regular and not stat.S_ISREG(os.stat(path).st_mode):
            raise FileFormatError(f"names {path!r}, which is no regular file")
        file = open(path, "rb")
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):  # a pipe has no places
            with file:
                if stat.S_ISCHR(status.st_mode):
                    raise FileFormatError(f"load: {path} is a device, whose bytes may have no end; expected a file or a pipe")
                raw = file.read()
            return cls(path, len(raw), raw=raw)
        if mmap and status.st_size:
            try:
                with file:
                    mapped = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_COPY)
                    return cls(path, len(mapped), mapped=mapped)
            except OSError:  # a file system without mappings
                file = open(path, "rb")
        return cls(path, status.st_size, file=file)

    def close(self) -> None:
        """Ends reading. Tensors over a mapping keep it."""
        if self._file is not None:
            self._file.close()
        if self._checker is not None:
            self._checker.shutdown()
            self._checker = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check(self, at: int, n: int, what: str) -> None:
        if at < 0 or n < 0 or at + n > self.size:
            raise FileFormatError(f"has {self.size} bytes, but {what} needs {n} from {at} on (truncated?)")

    def read(self, at: int, n: int, what: str) -> bytes:
        self._check(at, n, what)
        if self._raw is not None:
            return self._raw[at : at + n]
        if self._mapped is not None:
            return self._mapped[at : at + n]  # type: ignore[no-any-return]
        got = bytearray(n)
        self._fill(memoryview(got), at, what)
        return bytes(got)

    def whole(self) -> Any:
        """All bytes, to be looked at in few places: indexed, cut and searched as `bytes` are, without being read."""
        if self._raw is not None or self._mapped is not None:
            return self._raw if self._raw is not None else self._mapped
        try:
            return _mmap.mmap(self._file.fileno(), 0, access=_mmap.ACCESS_READ) if self.size else b""
        except OSError:
            return self.read(0, self.size, "the file")

    def _fill(self, into: memoryview, at: int, what: str) -> None:
        done = 0
        while done < len(into):
            taken = os.preadv(self._file.fileno(), [into[done:]], at + done)
            if taken <= 0:
                raise FileFormatError(f"ended at byte {at + done} while {what} was read")
            done += taken

    def _fill_checked(self, into: memoryview, at: int, crc: int, what: str) -> None:
        """Reads, and computes the checksum of one piece while the next is read."""
        if len(into) <= _PIECE:
            self._fill(into, at, what)
            check_crc(zlib.crc32(into), crc, what)
            return
        if self._checker is None:
            from concurrent.futures import ThreadPoolExecutor

            self._checker = ThreadPoolExecutor(1, "checksums")
        waiting = None
        for begin in range(0, len(into), _PIECE):
            piece = into[begin : begin + _PIECE]
            self._fill(piece, at + begin, what)
            waiting = self._checker.submit(zlib.crc32, piece, 0 if waiting is None else waiting.result())
        if waiting is not None:
            check_crc(waiting.result(), crc, what)

    def tensor(self, at: int, n: int, what: str, item: int = 1, crc: int | None = None) -> Tensor:
        """A flat uint8 tensor of these bytes, aligned for elements of `item` bytes.

        `crc` is compared where the bytes are read here, and not where they are mapped.
        """
        self._check(at, n, what)
        if n == 0:
            return ops.empty(0, dtype=_C.uint8, device="cpu")
        if self._mapped is not None and at % item == 0:
            return self._view(at, n)
        out = ops.empty(n, dtype=_C.uint8, device="cpu")
        into = memoryview(out).cast("B")
        if self._mapped is not None:
            into[:] = memoryview(self._mapped)[at : at + n]
        elif self._raw is not None:
            into[:] = memoryview(self._raw)[at : at + n]
        elif crc is None:
            self._fill(into, at, what)
        else:
            self._fill_checked(into, at, crc, what)
            return out
        if crc is not None:
            check_crc(zlib.crc32(into), crc, what)
        return out

    def _view(self, at: int, n: int) -> Tensor:
        if self._pages is None:
            import numpy as np

            self._pages = np.frombuffer(self._mapped, dtype="u1")
        return _C.from_buffer(self._pages[at : at + n])


def check_crc(found: int, want: int, what: str) -> None:
    if found != want:
        raise FileFormatError(f"is damaged: {what} has the checksum {found:08x}, but the file says {want:08x}")


def flat_of(raw: Tensor, dtype: Any, swap: bool = False, what: str = "a tensor") -> Tensor:
    """Bytes as elements of a type, over the same memory. A bool must be 0 or 1. `swap`: they are big-endian, and are copied."""
    if swap and dtype.itemsize > 1:
        raw = swapped(raw, dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize)
    if dtype == _C.bool and raw.numel() and (top := int(raw.max().item())) > 1:
        raise FileFormatError(f"{what} of dtype BOOL holds a byte {top}; expected 0 or 1")
    return raw.view(dtype)


def swapped(raw: Tensor, item: int) -> Tensor:
    """A copy whose elements of `item` bytes have their bytes in the other order."""
    return raw.view(-1, item).flip(1).reshape(-1)
