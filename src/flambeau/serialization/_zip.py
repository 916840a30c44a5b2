"""Zip archives of tensors, read strictly and written plainly.

    local header, name, padding, bytes      of each entry
    ...
    central directory                       names, sizes, checksums, places of the local headers
    [zip64 end, zip64 locator]              where numbers need 8 bytes
    end                                     22 bytes and a comment, up to the end of the file

What is read must agree with itself: both headers of an entry name the same things, entries neither overlap nor leave the file, and no
name is there twice or looks like a path out of a folder (nothing is unpacked to disk, but nobody writes such names in good faith).
Stored entries can
be mapped. Deflated ones are inflated to the size that is announced and not beyond, and all of them together to `MAX_INFLATED` at most.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._source import Source, check_crc

MAX_INFLATED = 1 << 28  # bytes, or RATIO times the file's size where that is more
RATIO = 100
MAX_NAME = 1000
_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_END64, _LOCATOR = b"PK\6\6", b"PK\6\7"
_STORED, _DEFLATED = 0, 8
_FLAGS = 0x0001 | 0x0020 | 0x0040 | 0x2000  # encrypted, patched, encrypted otherwise, masked headers
_DESCRIPTOR, _UTF8 = 0x0008, 0x0800
_FULL = 0xFFFFFFFF


class Entry(NamedTuple):
    name: str
    method: int
    crc: int
    packed: int  # bytes in the file
    size: int  # bytes unpacked
    at: int  # where its bytes begin


def _int(raw: bytes, at: int, n: int) -> int:
    return int.from_bytes(raw[at : at + n], "little")


def _inflate(raw: bytes, size: int, what: str) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        out = inflater.decompress(raw, size + 1)
    except zlib.error as error:
        raise FileFormatError(f"is damaged: {what} can not be inflated: {error}") from None
    if len(out) != size or not inflater.eof or inflater.unused_data:
        more = "more" if len(out) > size or inflater.unconsumed_tail else "less"
        raise FileFormatError(f"is damaged: {what} inflates to {more} than the {size} bytes that are announced")
    return out


class Archive:
    """The entries of a zip file, all checked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        count, start, end = self._find_directory()
        raw = source.read(start, end - start, "its directory")
        found: list[tuple[int, str, int, int, int, int, int]] = []
        at = 0
        for _ in range(count):
            if raw[at : at + 4] != _CENTRAL or at + 46 > len(raw):
                raise FileFormatError(f"has a damaged directory: no entry at byte {start + at}")
            name_size, extra_size, comment_size = (_int(raw, at + k, 2) for k in (28, 30, 32))
            after = at + 46 + name_size + extra_size + comment_size
            if after > len(raw):
                raise FileFormatError(f"has a damaged directory: the entry at byte {start + at} leaves it")
            name = self._name(raw[at + 46 : at + 46 + name_size])
            flags, method, crc, packed, size = _int(raw, at + 8, 2), _int(raw, at + 10, 2), *(_int(raw, at + k, 4) for k in (16, 20, 24))
            extra = raw[at + 46 + name_size : at + 46 + name_size + extra_size]
            size, packed, where = self._wide(name, extra, size, packed, _int(raw, at + 42, 4))
            if flags & _FLAGS:
                raise FileFormatError(f"holds an encrypted or patched entry {name!r} (flags {flags:#06x})")
            if method not in (_STORED, _DEFLATED):
                raise FileFormatError(f"holds {name!r}, packed by method {method}; expected 0 (stored) or 8 (deflated)")
            if method == _STORED and size != packed:
                raise FileFormatError(f"holds a stored entry {name!r} of {packed} bytes that announces {size}")
            found.append((where, name, method, crc, packed, size, flags))
            at = after
        if at != len(raw):
            raise FileFormatError(f"has a damaged directory: {len(raw) - at} bytes behind its last entry")
        inflated = sum(entry[5] for entry in found if entry[2] == _DEFLATED)
        limit = max(MAX_INFLATED, RATIO * source.size)
        if inflated > limit:
            raise FileFormatError(
                f"has {source.size} bytes, and its compressed entries announce {inflated}; at most {limit} are allowed "
                "(if you trust it, unpack it and store its entries uncompressed: zip -0)"
            )
        self.entries = self._locate(sorted(found), start)
        # PyTorch can be told to compute no checksums; all are 0 then.
        self._has_checksums = any(entry.crc for entry in self.entries.values())

    def _find_directory(self) -> tuple[int, int, int]:
        """(entries, first byte, byte behind the last)."""
        source = self.source
        tail_at = max(0, source.size - 22 - 0xFFFF)
        tail = source.read(tail_at, source.size - tail_at, "its end")
        at = tail.rfind(_END)
        while at >= 0 and at + 22 + _int(tail, at + 20, 2) != len(tail):
            at = tail.rfind(_END, 0, at + 3)
        if at < 0:
            raise FileFormatError(f"is a zip archive without an end: {source.size} bytes (truncated?)")
        disks = (_int(tail, at + 4, 2), _int(tail, at + 6, 2))
        here, count = _int(tail, at + 8, 2), _int(tail, at + 10, 2)
        size, start, end = _int(tail, at + 12, 4), _int(tail, at + 16, 4), tail_at + at
        if end >= 20 and source.read(end - 20, 4, "its end") == _LOCATOR:
            locator = source.read(end - 20, 20, "its end")
            wide_at, disks = _int(locator, 8, 8), (_int(locator, 4, 4), _int(locator, 16, 4) - 1)
            wide = source.read(wide_at, 56, "its zip64 end")
            if wide[:4] != _END64 or wide_at + 12 + _int(wide, 4, 8) != end - 20:
                raise FileFormatError(f"is damaged: no zip64 end at byte {wide_at}")
            here, count, size, start = (_int(wide, k, 8) for k in (24, 32, 40, 48))
            end = wide_at
        if disks not in ((0, 0), (0, -1)) or here != count:
            raise FileFormatError("is one of several parts of an archive; expected all of it in one file")
        if start + size != end or count * 46 > size:
            raise FileFormatError(f"is damaged: a directory of {count} entries in {size} bytes at {start}, which ends at {end}")
        return count, start, end

    @staticmethod
    def _name(raw: bytes) -> str:
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise FileFormatError(f"holds an entry whose name is not UTF-8: {short(raw)}") from None
        parts = name.split("/")
        odd = any(c in name for c in "\0\\") or ":" in parts[0] or name.startswith("/") or ".." in parts or "." in parts
        if odd or not name or len(raw) > MAX_NAME:
            raise FileFormatError(f"holds an entry named {short(name)}, which is no plain name")
        return name

    @staticmethod
    def _wide(name: str, extra: bytes, size: int, packed: int, where: int) -> tuple[int, int, int]:
        """Numbers of 8 bytes, for those that are full in the directory."""
        at = 0
        while at + 4 <= len(extra):
            kind, n = _int(extra, at, 2), _int(extra, at + 2, 2)
            if kind == 1:
                values = [size, packed, where]
                wanted = [k for k in range(3) if values[k] == _FULL]
                if at + 4 + n > len(extra) or 8 * len(wanted) > n:
                    break
                for i, k in enumerate(wanted):
                    values[k] = _int(extra, at + 4 + 8 * i, 8)
                return values[0], values[1], values[2]
            at += 4 + n
        if _FULL in (size, packed, where):
            raise FileFormatError(f"is damaged: {name!r} needs numbers of 8 bytes, and has none")
        return size, packed, where

    def _locate(self, found: list[tuple[int, str, int, int, int, int, int]], directory: int) -> dict[str, Entry]:
        """The entries by name; `found` is in the order of their places."""
        entries: dict[str, Entry] = {}
        free, before = 0, "the beginning"
        for where, name, method, crc, packed, size, flags in found:
            if where < free:
                raise FileFormatError(f"is damaged: {name!r} at byte {where} overlaps {before}, which ends at {free}")
            if where + 30 > directory:
                raise FileFormatError(f"is damaged: {name!r} at byte {where} lies behind the entries, which end at {directory}")
            raw = self.source.read(where, 30, f"the header of {name!r}")
            name_size, extra_size = _int(raw, 26, 2), _int(raw, 28, 2)
            at = where + 30 + name_size + extra_size
            if raw[:4] != _LOCAL or at + packed > directory:
                raise FileFormatError(f"is damaged: {name!r} at byte {where} is no entry of {packed} bytes")
            local_name = self.source.read(where + 30, name_size, f"the name of {name!r}")
            local = (_int(raw, 6, 2), _int(raw, 8, 2), local_name)
            if local != (flags, method, name.encode("utf-8")):
                raise FileFormatError(f"is damaged: {name!r} has another name, method or flags at byte {where} than in the directory")
            numbers = tuple(_int(raw, k, 4) for k in (14, 18, 22))
            told = (crc, *(min(n, _FULL) for n in (packed, size)))
            if not all(have == want or have == _FULL or (have == 0 and flags & _DESCRIPTOR) for have, want in zip(numbers, told)):
                raise FileFormatError(f"is damaged: {name!r} has other sizes or another checksum at byte {where} than in the directory")
            if name in entries:
                raise FileFormatError(f"holds two entries named {name!r}")
            entries[name] = Entry(name, method, crc, packed, size, at)
            free, before = at + packed, repr(name)
        return entries

    def read(self, name: str) -> bytes:
        """An entry's bytes, unpacked and compared with their checksum."""
        entry = self.entries[name]
        raw = self.source.read(entry.at, entry.packed, repr(name))
        if entry.method == _DEFLATED:
            raw = _inflate(raw, entry.size, repr(name))
        if self._has_checksums:
            check_crc(zlib.crc32(raw), entry.crc, repr(name))
        return raw

    def tensor(self, name: str, item: int) -> Tensor:
        """An entry's bytes as a flat uint8 tensor, aligned for elements of `item` bytes.

        They are mapped where the entry is stored and the file is mapped.
        """
        return self.part(name, 0, self.entries[name].size, item)

    def part(self, name: str, begin: int, n: int, item: int) -> Tensor:
        """As `tensor`, of n bytes from `begin` on."""
        entry = self.entries[name]
        if begin < 0 or n < 0 or begin + n > entry.size:
            raise FileFormatError(f"has an entry {name!r} of {entry.size} bytes, where {n} from {begin} on are wanted")
        if entry.method == _STORED and (self.source.mapped or n == entry.size):
            crc = entry.crc or None if n == entry.size else None  # 0: what was left empty, or an archive without checksums
            return self.source.tensor(entry.at + begin, n, repr(name), item, crc)
        raw = memoryview(self.read(name))[begin : begin + n]
        out = _C.ops.empty(n, dtype=_C.uint8, device="cpu")
        if n:
            memoryview(out).cast("B")[:] = raw
        return out


# ------------------------------------------------------------------------------------------- writing

ALIGNMENT = 64
_HEAD, _LENGTHS, _PLACES = struct.Struct("<5H3I"), struct.Struct("<2H"), struct.Struct("<5H2I")
_VERSION_20, _VERSION_45 = (20).to_bytes(2, "little"), (45).to_bytes(2, "little")


def write_archive(write: Callable[[Any], None], entries: Iterable[tuple[str, Any]]) -> None:
    """Writes stored entries, whose bytes begin at multiples of `ALIGNMENT`, by `write`, which takes all that it is given.

    An entry is (name, bytes), or (name, number of bytes that are left empty, without a checksum).
    """
    at, count = 0, 0
    directory: list[bytes] = []
    for name, content in entries:
        empty = isinstance(content, int)
        data = memoryview(bytes(content)) if empty else memoryview(content).cast("B") if len(content) else memoryview(b"")
        text, n, crc = name.encode("utf-8"), len(data), 0 if empty else zlib.crc32(data)
        wide = b"" if n < _FULL else _field(1, n.to_bytes(8, "little") * 2)
        begin = at + 30 + len(text) + len(wide) + 4
        wide += _field(0x4246, b"Z" * (-begin % ALIGNMENT))
        few = min(n, _FULL)
        head = _HEAD.pack(20 if n < _FULL else 45, _UTF8, _STORED, 0, 0x21, crc, few, few)
        write(_LOCAL + head + _LENGTHS.pack(len(text), len(wide)) + text + wide)
        write(data)
        full = [size for size in (n, n, at) if size >= _FULL]
        extra = _field(1, b"".join(size.to_bytes(8, "little") for size in full)) if full else b""
        places = _PLACES.pack(len(text), len(extra), 0, 0, 0, 0, min(at, _FULL))
        version = _VERSION_45 if full else _VERSION_20
        directory.append(_CENTRAL + version + (version + head[2:] if full else head) + places + text + extra)
        at += 30 + len(text) + len(wide) + n
        count += 1
    raw = b"".join(directory)
    write(raw)
    if count >= 0xFFFF or at >= _FULL or len(raw) >= _FULL:
        end = at + len(raw)
        write(_END64 + _numbers((44, 8), (45, 2), (45, 2), (0, 4), (0, 4), (count, 8), (count, 8), (len(raw), 8), (at, 8)))
        write(_LOCATOR + _numbers((0, 4), (end, 8), (1, 4)))
    few = min(count, 0xFFFF)
    write(_END + _numbers((0, 2), (0, 2), (few, 2), (few, 2), (min(len(raw), _FULL), 4), (min(at, _FULL), 4), (0, 2)))


def _numbers(*values: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(n, "little") for value, n in values)


def _field(kind: int, content: bytes) -> bytes:
    return _LENGTHS.pack(kind, len(content)) + content
