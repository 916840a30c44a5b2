"""NumPy's files: .npy, one array, and .npz, a zip archive of these. Arrays of objects, which are pickles, are refused.

    \\x93NUMPY, version (2 bytes), n (2 or 4 bytes), n bytes {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }, elements

The header is a line of Python; it is not evaluated here but compared with what it looks like.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._sharing import check_place
from flambeau.serialization._source import Source, flat_of
from flambeau.serialization._zip import Archive

MAX_HEADER = 10_000
_MAGIC = b"\x93NUMPY"
_TOKEN = re.compile(r"\s*('[A-Za-z0-9_<>|=]{0,40}'|True|False|\([0-9L,\s]*\)|\[|[{}:,])\s*")
_SIZE = re.compile(r"[0-9]{1,19}L?")
_DTYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "f2": "float16", "f4": "float32", "f8":
    "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
Part = Callable[[int, int, int], Tensor]  # (first byte, bytes, alignment) -> flat uint8


def _fields(text: str) -> dict[str, str] | None:
    """The text of each value of a header, or None for what is no header."""
    tokens: list[str] = []
    at = 0
    while at < len(text) and len(tokens) < 20 and (found := _TOKEN.match(text, at)):
        tokens.append(found[1])
        at = found.end()
        if found[1] == "[":  # several fields, which are refused whatever they are
            return {"descr": "[", "fortran_order": "False", "shape": "()"}
    if tokens[:1] != ["{"] or tokens[-1:] != ["}"] or at != len(text):
        return None
    inner = tokens[1:-1] + ([","] if tokens[-2:-1] != [","] else [])
    fields = {inner[k]: inner[k + 2] for k in range(0, len(inner) - 3, 4) if inner[k + 1] == ":" and inner[k + 3] == ","}
    if len(inner) != 12 or sorted(fields) != ["'descr'", "'fortran_order'", "'shape'"]:
        return None
    return {key.strip("'"): value for key, value in fields.items()}


def _header(read: Callable[[int, int], bytes], size: int, what: str) -> tuple[Any, bool, list[int], bool, int]:
    """(dtype, big-endian, shape, whether the first axis is the fastest, where the elements begin)."""
    head = read(0, min(12, size))
    if len(head) < 10 or not head.startswith(_MAGIC) or head[6] not in (1, 2, 3):
        raise FileFormatError(f"holds {what}, which does not begin as .npy of version 1 to 3 does: {short(head)}")
    wide = 2 if head[6] == 1 else 4
    n = int.from_bytes(head[8 : 8 + wide], "little")
    if n > MAX_HEADER or 8 + wide + n > size:
        raise FileFormatError(
            f"holds {what} with a header of {n} bytes; expected at most {MAX_HEADER}, and {size} bytes are there (truncated?)"
        )
    text = read(8 + wide, n).decode("latin1" if head[6] < 3 else "utf-8", "replace")
    fields = _fields(text)
    if fields is None or fields["fortran_order"] not in ("True", "False") or not fields["shape"].startswith("("):
        raise FileFormatError(f"holds {what} with the header {short(text)}; expected descr, fortran_order and shape")
    descr = fields["descr"].strip("'")
    if descr[:1] not in ("<", ">", "|", "=") or descr[1:] not in _DTYPES:
        given = "several fields" if descr == "[" else f"elements of type {short(descr)}"
        why = " (pickles, which are never loaded)" if "O" in descr else ""
        raise FileFormatError(
            f"holds {what} with {given}{why}, which have no counterpart here; expected one of {', '.join(_DTYPES)}"
        )
    sizes = [part.strip() for part in fields["shape"][1:-1].split(",") if part.strip()]
    if not all(map(_SIZE.fullmatch, sizes)):
        raise FileFormatError(f"holds {what} of shape {short(fields['shape'])}")
    shape = [int(part.rstrip("L")) for part in sizes]
    return getattr(_C, _DTYPES[descr[1:]]), descr[0] == ">", shape, fields["fortran_order"] == "True", 8 + wide + n


def read_array(read: Callable[[int, int], bytes], part: Part, size: int, what: str) -> Tensor:
    """One .npy of `size` bytes; `read` gives bytes and `part` memory."""
    dtype, swap, shape, fortran, start = _header(read, size, what)
    if len(shape) > 64 or math.prod(n for n in shape if n) * dtype.itemsize >= 2**59:
        raise FileFormatError(f"holds {what} of shape {short(shape)}, which is too large")
    n = math.prod(shape) * dtype.itemsize
    if start + n != size:
        raise FileFormatError(
            f"holds {what} of {dtype} and shape {short(shape)}, which needs {n} bytes, where {size - start} are (truncated?)"
        )
    flat = flat_of(part(start, n, dtype.itemsize), dtype, swap, what)
    if not fortran:
        return flat.view(shape)
    strides = [math.prod(shape[:k]) for k in range(len(shape))]
    if fault := check_place({"at": [0, shape, strides]}, [flat.numel()], dtype.itemsize):
        raise FileFormatError(f"holds {what} with {fault}")
    return flat.as_strided(shape, strides, flat.storage_offset()).detach()


def read_npy(source: Source) -> Tensor:
    return read_array(
        lambda at, n: source.read(at, n, "its header"), lambda at, n, item: source.tensor(at, n, "its array", item), source.size, "an array"
    )


def is_npz(archive: Archive) -> bool:
    return bool(archive.entries) and all(name.endswith(".npy") for name in archive.entries)


def read_npz(archive: Archive) -> dict[str, Tensor]:
    return {name.removesuffix(".npy"): _entry(archive, name) for name in archive.entries}


def _entry(archive: Archive, name: str) -> Tensor:
    entry = archive.entries[name]
    if archive.source.mapped and not entry.method:
        return read_array(
            lambda at, n: archive.source.read(entry.at + at, n, repr(name)),
            lambda at, n, item: archive.part(name, at, n, item),
            entry.size, repr(name),
        )  # fmt: skip
    raw = archive.tensor(name, 1)  # compared with its checksum, and unpacked once
    content = memoryview(raw).cast("B") if entry.size else memoryview(b"")
    return read_array(
        lambda at, n: bytes(content[at : at + n]),
        lambda at, n, item: raw[at : at + n] if at % item == 0 else raw[at : at + n].clone(),
        entry.size, repr(name),
    )  # fmt: skip
