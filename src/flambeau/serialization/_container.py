"""The container: a safetensors file, written from and checked against a table of entries.

    8 bytes  n, little-endian
    n bytes  JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
    rest     the tensors' bytes, without gaps

What is read is checked against the file's size before the first tensor is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._tensor import LIES_AS
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._source import Source, flat_of

MAX_HEADER_BYTES = 100_000_000
MAX_DIMS = 64
MAX_BYTES = 2**63 - 1  # of a tensor, its empty axes left out: what strides are computed with

# safetensors name -> (our dtype's name, NumPy dtype that holds the same bytes, bytes per element)
DTYPES: dict[str, tuple[str, str, int]] = {
    "F64": ("float64", "<f8", 8),
    "F32": ("float32", "<f4", 4),
    "F16": ("float16", "<f2", 2),
    "BF16": ("bfloat16", "<i2", 2),
    "I64": ("int64", "<i8", 8),
    "I32": ("int32", "<i4", 4),
    "I16": ("int16", "<i2", 2),
    "I8": ("int8", "|i1", 1),
    "U8": ("uint8", "|u1", 1),
    "U16": ("uint16", "<u2", 2),
    "U32": ("uint32", "<u4", 4),
    "U64": ("uint64", "<u8", 8),
    "BOOL": ("bool", "|b1", 1),
    "C64": ("complex64", "<c8", 8),
    "C128": ("complex128", "<c16", 16),
    "C32": ("complex32", "<i4", 4),
    "F8_E4M3": ("float8_e4m3fn", "|u1", 1),
    "F8_E5M2": ("float8_e5m2", "|u1", 1),
    "F8_E8M0": ("float8_e8m0fnu", "|u1", 1),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", "|u1", 1),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", "|u1", 1),
}
# The format has neither complex128 nor complex32. In a file such a tensor is F64 or F16 with its parts along a last axis, and named in an
# entry of the metadata: code -> (the code of its parts, the entry).
_PAIRS = {"C128": ("F64", "flambeau.complex128"), "C32": ("F16", "flambeau.complex32")}


def code_of(dtype: Any) -> str | None:
    for code, (name, _, _) in DTYPES.items():
        if getattr(_C, name) == dtype:
            return code
    return None


def array_of(value: Tensor) -> Any:
    """A contiguous little-endian NumPy array with the tensor's bytes."""
    import numpy as np

    value = value.detach().cpu().contiguous()
    if value.dtype in LIES_AS:
        value = value.view(LIES_AS[value.dtype])
    array = np.ascontiguousarray(value.numpy())
    return array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(tuple(value.shape))


def write_all(file: Any, data: Any) -> None:
    """Raw files may take less than they are given, and say how much."""
    rest = memoryview(data)
    while True:
        taken = file.write(rest)
        if not isinstance(taken, int) or taken >= len(rest):
            return
        if taken <= 0:
            raise OSError(f"save: the file took {taken} of {len(rest)} bytes")
        rest = rest[taken:]


def container_of(tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> Callable[[Any], None]:
    """What writes the container into a binary file; the header is made, and refused, here."""
    # Big elements first, so that every tensor is aligned to its element size.
    codes = {name: code_of(value.dtype) or "" for name, value in tensors.items()}
    order = sorted(tensors, key=lambda name: -DTYPES[codes[name]][2])
    pairs = {entry: [name for name in order if codes[name] == code] for code, (_, entry) in _PAIRS.items()}
    header: dict[str, Any] = {"__metadata__": {**metadata, **{entry: json.dumps(names) for entry, names in pairs.items() if names}}}
    offset = 0
    for name in order:
        end = offset + tensors[name].numel() * DTYPES[codes[name]][2]
        shape, code = list(tensors[name].shape), codes[name]
        if code in _PAIRS:
            shape, code = [*shape, 2], _PAIRS[code][0]
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"save: the structure needs {len(text)} bytes; at most {MAX_HEADER_BYTES}")

    def write(file: Any) -> None:
        write_all(file, len(text).to_bytes(8, "little") + text)
        for name in order:
            write_all(file, array_of(tensors[name]).reshape(-1).view("u1").data)

    return write


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FileFormatError(f"the name {short(key)} appears twice")
            seen.add(key)
    return result


def parse_json(text: str, what: str) -> Any:
    def no_constant(name: str) -> Any:
        raise FileFormatError(f"{what} holds {name}, which is not JSON")

    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=no_constant)
    except FileFormatError:
        raise
    except RecursionError:
        raise FileFormatError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise FileFormatError(f"{what} is not valid JSON: {error}") from None


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _check_entry(name: str, entry: Any, n_data: int) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"tensor {short(name)} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES or code in _PAIRS:
        raise FileFormatError(
            f"tensor {short(name)} has dtype {code!r}; expected one of {', '.join(c for c in DTYPES if c not in _PAIRS)}"
        )
    if not isinstance(shape, list) or len(shape) > MAX_DIMS or not all(map(is_count, shape)):
        raise FileFormatError(f"tensor {short(name)} has shape {str(shape)[:80]}; expected sizes >= 0")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
        raise FileFormatError(f"tensor {short(name)} has data_offsets {str(offsets)[:80]}; expected two")
    begin, end = offsets
    if begin > end or end > n_data:
        raise FileFormatError(
            f"tensor {short(name)} has data_offsets [{begin}, {end}], but the file has {n_data} data "
            "bytes "
            "(truncated?)"
        )
    item = DTYPES[code][2]
    if item * math.prod(size for size in shape if size) > MAX_BYTES:
        raise FileFormatError(
            f"tensor {short(name)} of shape {str(shape)[:80]} needs more than {MAX_BYTES} bytes"
        )
    n = item * math.prod(shape)
    if n != end - begin:
        raise FileFormatError(
            f"tensor {short(name)} of dtype {code} and shape {shape} needs {n} bytes, but its "
            "data_offsets "
            f"[{begin}, {end}] hold {end - begin}"
        )


def _check_layout(entries: dict[str, Any], n_data: int) -> None:
    """The tensors must cover the data without gaps or overlaps."""
    at, before = 0, "the header"
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != at:
            what = "overlaps" if begin < at else "leaves a gap after"
            raise FileFormatError(
                f"tensor {short(name)} at byte {begin} {what} {short(before)}, which ends at {at}"
            )
        at, before = end, name
    if at != n_data:
        raise FileFormatError(f"the tensors end at byte {at}, but the file has {n_data} data bytes")


def _find_pairs(entries: dict[str, Any], metadata: dict[str, str]) -> None:
    """Makes complex numbers of the pairs that the metadata names."""
    for code, (part, key) in _PAIRS.items():
        names = parse_json(metadata.pop(key, "[]"), f"its metadata {key}")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise FileFormatError(f"its metadata {key} is no list of names: {str(names)[:80]}")
        for name in names:
            entry = entries.get(name)
            if entry is None or entry["dtype"] != part or entry["shape"][-1:] != [2]:
                what = f"no {part} tensor with a last axis of size 2"
                raise FileFormatError(f"its metadata {key} names {short(name)}, which is {what}: {entry}")
            entries[name] = {**entry, "dtype": code, "shape": entry["shape"][:-1]}


def read_header(source: Source) -> tuple[dict[str, Any], dict[str, str], int]:
    """Returns (tensor entries, metadata, where the data starts), all checked."""
    size = source.size
    begins = source.read(0, min(size, 9), "its begin")
    n = int.from_bytes(begins[:8], "little")
    if size < 8 or (begins[8:] != b"{" and n > min(size - 8, MAX_HEADER_BYTES)):
        raise FileFormatError(
            f"has {size} bytes that begin with {begins[:8]!r}, as no file of tensors does: "
            "those of PyTorch, NumPy, safetensors and GGUF are read"
        )
    if n > min(size - 8, MAX_HEADER_BYTES):
        raise FileFormatError(
            f"announces a header of {n} bytes, but has {size - 8} bytes behind the length (and "
            "at most "
            f"{MAX_HEADER_BYTES} are allowed): truncated, or not a safetensors file"
        )
    raw = source.read(8, n, "its header")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"its header is not UTF-8: {error}") from None
    header = parse_json(text, "its header")
    if not isinstance(header, dict):
        raise FileFormatError("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileFormatError("its __metadata__ is not an object of strings")
    for name, entry in header.items():
        _check_entry(name, entry, size - 8 - n)
    _check_layout(header, size - 8 - n)
    _find_pairs(header, metadata)
    return header, metadata, 8 + n


def reader(
    source: Source, entries: dict[str, Any], start: int, move: Callable[[Tensor], Tensor], keep: bool = True
) -> Callable[[str], Tensor]:
    """What makes the tensor of an entry; `read_header` has checked them. `move` may put it elsewhere.

    With `keep` it is the same tensor each time.
    """
    loaded: dict[str, Tensor] = {}

    def tensor(name: str) -> Tensor:
        if name in loaded:
            return loaded[name]
        entry = entries[name]
        dtype_name, _, item = DTYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        raw = source.tensor(start + begin, end - begin, f"tensor {short(name)}", item)
        value = move(flat_of(raw, getattr(_C, dtype_name), what=f"tensor {short(name)}").view(entry["shape"]))
        if keep:
            loaded[name] = value
        return value

    return tensor
