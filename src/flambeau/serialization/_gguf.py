"""GGUF, the format of llama.cpp: metadata and tensors, some of them in blocks of few bits.

    "GGUF", version (2 or 3), tensors, entries of metadata
    for each entry: name, type, value                          text: 8 bytes with its length, UTF-8
    for each tensor: name, axes, sizes (the fastest axis first), type, offset
    padding to the alignment, then the tensors' bytes, each from a multiple of the alignment on

    type   block of 32 elements                    element i
    q8_0   float16 d, 32 of int8 q                 d q[i]
    q4_0   float16 d, 16 bytes of two 4-bit q      d (q[i] - 8); the lower halves are elements 0 to 15, the upper ones 16 to 31

Source: the specification docs/gguf.md of the repository ggml-org/ggml.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._source import Source, flat_of

MAX_NAME = 1 << 16
MAX_NESTED = 4  # arrays in arrays
_PLAIN = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64", 30: "bfloat16"}
_Q4_0, _Q8_0, _BLOCK = 2, 8, 32
_BLOCK_BYTES = {_Q4_0: 18, _Q8_0: 34}
_NAMES = {
    2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_K", 11: "q3_K", 12: "q4_K", 13: "q5_K", 14: "q6_K", 15:
    "q8_K", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m",
    34:
    "tq1_0", 35: "tq2_0", 39: "mxfp4",
}  # fmt: skip
# type of a value -> bytes, signed, or None for what is no integer
_INTEGERS = {0: (1, False), 1: (1, True), 2: (2, False), 3: (2, True), 4: (4, False), 5: (4, True), 10: (8, False), 11: (8, True)}
_FLOATS = {6: ("<f4", 4), 12: ("<f8", 8)}
_BOOL, _TEXT, _ARRAY = 7, 8, 9
_ARRAYS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 10: "<u8", 11: "<i8", 6: "<f4", 12: "<f8"}


class Described(NamedTuple):
    """A tensor of the file: its place and what its bytes mean."""

    shape: list[int]
    kind: int
    at: int
    size: int


class GGUF:
    """Metadata and tensors by name; a tensor is made when it is asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0
        # The header may be megabytes of words. What it is made of is looked at where it lies.
        self._data = source.whole()
        if self._take(4, "its magic number") != b"GGUF":
            raise FileFormatError("does not begin with GGUF")
        version = self._integer(4)
        if version & 0xFFFF == 0:
            raise FileFormatError("is a big-endian GGUF file, which is not read (convert it, or write it on a little-endian machine)")
        if version not in (2, 3):
            raise FileFormatError(f"is GGUF of version {version}; expected 2 or 3")
        n_tensors, n_entries = self._integer(8), self._integer(8)
        if n_tensors * 25 + n_entries * 13 > source.size:
            raise FileFormatError(
                f"announces {n_tensors} tensors and {n_entries} entries of metadata, which do not fit into {source.size} bytes"
            )
        self.metadata: dict[str, Any] = {}
        for _ in range(n_entries):
            name = self._text("a name of its metadata", MAX_NAME)
            if name in self.metadata:
                raise FileFormatError(f"has two entries of metadata named {short(name)}")
            self.metadata[name] = self._value(self._integer(4), 0)
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment <= 0 or alignment & 7 or alignment > 1 << 20:
            raise FileFormatError(f"has general.alignment = {short(alignment)}; expected a multiple of 8")
        described = [self._tensor_info() for _ in range(n_tensors)]
        start = -(-self._at // alignment) * alignment
        self.tensors: dict[str, Described] = {}
        for name, shape, kind, offset in described:
            if name in self.tensors:
                raise FileFormatError(f"has two tensors named {short(name)}")
            size = self._bytes_of(name, shape, kind)
            if offset % alignment or start + offset + size > source.size:
                raise FileFormatError(
                    f"has a tensor {short(name)} of {size} bytes at {offset}; expected a multiple of {alignment}, and an end within the "
                    f"{max(0, source.size - start)} bytes of the tensors (truncated?)"
                )
            self.tensors[name] = Described(shape, kind, start + offset, size)
        end, before = start, ""
        for name, (_, _, at, size) in sorted(self.tensors.items(), key=lambda item: item[1].at):
            if at < end:
                raise FileFormatError(f"has tensors {short(before)} and {short(name)} that overlap at byte {at}")
            end, before = at + size, name

    # ---- the header

    def _take(self, n: int, what: str) -> bytes:
        if self._at + n > self._source.size:
            raise FileFormatError(f"ends in {what}: {n} bytes are wanted at {self._at} (truncated?)")
        self._at += n
        return self._data[self._at - n : self._at]  # type: ignore[no-any-return]

    def _integer(self, n: int, signed: bool = False) -> int:
        return int.from_bytes(self._take(n, "its header"), "little", signed=signed)

    def _text(self, what: str, limit: int | None = None) -> str:
        n = self._integer(8)
        if limit is not None and n > limit:
            raise FileFormatError(f"has {what} of {n} bytes; expected at most {limit}")
        try:
            return self._take(n, what).decode("utf-8")
        except UnicodeDecodeError:
            raise FileFormatError(f"has {what} that is not UTF-8, before byte {self._at}") from None

    def _value(self, kind: int, depth: int) -> Any:
        import numpy as np

        if kind in _INTEGERS:
            return self._integer(*_INTEGERS[kind])
        if kind in _FLOATS:
            code, size = _FLOATS[kind]
            return float(np.frombuffer(self._take(size, "a number"), code)[0])
        if kind == _BOOL:
            byte = self._integer(1)
            if byte > 1:
                raise FileFormatError(f"has a bool {byte} in its metadata, at byte {self._at - 1}")
            return bool(byte)
        if kind == _TEXT:
            return self._text("a text of its metadata")
        if kind != _ARRAY or depth >= MAX_NESTED:
            raise FileFormatError(f"has a value of type {kind} in its metadata, at byte {self._at}, {depth} arrays deep")
        inner, count = self._integer(4), self._integer(8)
        if inner in _ARRAYS:
            dtype = np.dtype(_ARRAYS[inner])
            if count * dtype.itemsize > self._source.size:
                raise FileFormatError(f"announces an array of {count} numbers, which do not fit into {self._source.size} bytes")
            return np.frombuffer(self._take(count * dtype.itemsize, "an array"), dtype).tolist()
        if count > self._source.size:  # each takes a byte or more
            raise FileFormatError(f"announces an array of {count} values, which do not fit into {self._source.size} bytes")
        return [self._value(inner, depth + 1) for _ in range(count)]

    def _tensor_info(self) -> tuple[str, list[int], int, int]:
        name = self._text("a tensor's name", MAX_NAME)
        n = self._integer(4)
        if n > 64:
            raise FileFormatError(f"has a tensor {short(name)} of {n} axes")
        shape = [self._integer(8) for _ in range(n)][::-1]
        return name, shape, self._integer(4), self._integer(8)

    @staticmethod
    def _bytes_of(name: str, shape: list[int], kind: int) -> int:
        count = math.prod(shape)
        if math.prod(n for n in shape if n) >= 2**56:
            raise FileFormatError(f"has a tensor {short(name)} of shape {short(shape)}, which is too large")
        if kind in _PLAIN:
            return count * int(getattr(_C, _PLAIN[kind]).itemsize)
        if kind not in _BLOCK_BYTES:
            return 0  # unknown; who asks for it is told
        if not shape or shape[-1] % _BLOCK:
            raise FileFormatError(
                f"has a {_NAMES[kind]} tensor {short(name)} of shape {short(shape)}; expected a last axis of whole blocks of {_BLOCK}"
            )
        return count // _BLOCK * _BLOCK_BYTES[kind]

    # ---- tensors

    def tensor(self, name: str) -> Tensor:
        """The tensor, on the file's memory where its elements are plain, as float32 where they are in blocks."""
        shape, kind, at, size = self.tensors[name]
        if kind in _PLAIN:
            dtype = getattr(_C, _PLAIN[kind])
            return flat_of(self._source.tensor(at, size, repr(name), dtype.itemsize), dtype).view(shape)
        if kind not in _BLOCK_BYTES:
            raise FileFormatError(
                f"has a tensor {short(name)} of type {_NAMES.get(kind, kind)}; expected {', '.join(_PLAIN.values())}, q4_0 or q8_0 "
                "(convert it, or read the others one by one with flambeau.serialization.safe_open)"
            )
        blocks = self._source.tensor(at, size, repr(name)).view(-1, _BLOCK_BYTES[kind])
        scales = blocks[:, :2].contiguous().view(_C.float16).to(_C.float32)  # [blocks, 1]
        codes = blocks[:, 2:]
        if kind == _Q8_0:
            whole = codes.contiguous().view(_C.int8)  # [blocks, 32]
        else:
            upper: Any = codes.__rshift__(4)  # type: ignore[operator]
            whole = _C.ops.cat([codes & 15, upper], 1).to(_C.int8) - 8
        return (whole.to(_C.float32) * scales).view(shape)
