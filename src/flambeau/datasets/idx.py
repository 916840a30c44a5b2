"""The IDX format: a big-endian header and the raw bytes of one array.

2 bytes 0 | 1 byte element type | 1 byte number of dimensions d | d sizes of 4 bytes | data
"""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class DatasetError(ValueError):
    """A dataset file is damaged; the text names the file, what was found and what was expected."""


def _read(path: str, file: Any, shape: tuple[int | None, ...], type_code: int) -> Any:
    import numpy as np

    head = file.read(4)
    if len(head) < 4:
        raise DatasetError(f"{path}: found {len(head)} bytes; expected an IDX header of 4 bytes")
    wanted = bytes([0, 0, type_code, len(shape)])
    if head != wanted:
        raise DatasetError(
            f"{path}: found the magic number 0x{head.hex()}; expected 0x{wanted.hex()} "
            f"({len(shape)} dimensions of {_TYPES[type_code][1:]})"
        )
    raw = file.read(4 * len(shape))
    if len(raw) < 4 * len(shape):
        raise DatasetError(f"{path}: found {len(raw)} bytes of sizes; expected {4 * len(shape)}")
    found = tuple(int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(len(shape)))
    if any(want is not None and want != got for want, got in zip(shape, found)):
        expected = ["any" if want is None else want for want in shape]
        raise DatasetError(f"{path}: found the sizes {list(found)}; expected {expected}")
    dtype = np.dtype(_TYPES[type_code])
    n = dtype.itemsize
    for size in found:
        n *= size
    # Read in pieces: a header that lies must not make us allocate what it says.
    pieces, have = [], 0
    while have <= n:
        piece = file.read(min(1 << 24, n + 1 - have))
        if not piece:
            break
        pieces.append(piece)
        have += len(piece)
    if have != n:
        count = f"{have} data bytes" if have < n else f"more than {n} data bytes"
        raise DatasetError(f"{path}: found {count}; expected {n} for sizes {list(found)}")
    return np.frombuffer(b"".join(pieces), dtype=dtype).reshape(found)


def read_idx(path: Any, shape: tuple[int | None, ...], type_code: int = 0x08) -> Any:
    """Reads an IDX file, plain or gzip, as a NumPy array; None in `shape` leaves a size open.

    Raises:
        FileNotFoundError: there is no such file.
        DatasetError: (a ValueError) wrong magic number or sizes, too short or long, broken gzip.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not zipped:
            left = os.fstat(file.fileno()).st_size
            if left == 0:
                raise DatasetError(f"{path}: found an empty file; expected an IDX file")
            return _read(path, file, shape, type_code)
        try:
            with gzip.open(file) as unzipped:
                return _read(path, unzipped, shape, type_code)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DatasetError(
                f"{path}: found damaged gzip data ({error}); expected an IDX file"
            ) from None
