"""`save` and `load`: nested containers of tensors in one safetensors file.

    8 bytes  n, little-endian
    n bytes  JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...,
                   "__metadata__": {"flambeau.structure": "<JSON>", "flambeau.format": "1"}}
    rest     the tensors' bytes

The tensors make an ordinary safetensors file, and the structure around them (dicts with any plain
keys, lists, tuples, numbers, ...) is JSON in its metadata. So a dict of tensors written here opens
in every safetensors reader and the other way round, and loading runs no code from the file:
everything is checked against the file's size before the first tensor is made.

In the structure JSON a leaf stands for itself and an object with one key for the rest:
{"T": name} tensor, {"d": [[key, value], ...]} dict, {"t": [...]} tuple, {"f": "nan"} float.
Tensors are written by value (a view costs its own size, not its storage's); the same view met twice
is shared again after loading. NumPy arrays are written as tensors and come back as tensors.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import tempfile
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

_FORMAT = "flambeau.format"
_STRUCTURE = "flambeau.structure"
_MAX_HEADER_BYTES = 100_000_000
_MAX_DEPTH = 200
_MAX_DIMS = 64
_MAX_BYTES = 2**63 - 1  # of a tensor, its empty axes left out: what strides are computed with

# safetensors name -> (our dtype's name, NumPy dtype that holds the same bytes, bytes per element)
_DTYPES: dict[str, tuple[str, str, int]] = {
    "F64": ("float64", "<f8", 8),
    "F32": ("float32", "<f4", 4),
    "F16": ("float16", "<f2", 2),
    "BF16": ("bfloat16", "<i2", 2),
    "I64": ("int64", "<i8", 8),
    "I32": ("int32", "<i4", 4),
    "I16": ("int16", "<i2", 2),
    "I8": ("int8", "|i1", 1),
    "U8": ("uint8", "|u1", 1),
    "BOOL": ("bool", "|b1", 1),
}


class FileFormatError(ValueError):
    """The file is not what it should be; nothing was loaded from it."""


# ------------------------------------------------------------------------------------------- saving


def _code_of(dtype: Any) -> str | None:
    for code, (name, _, _) in _DTYPES.items():
        if getattr(_C, name) == dtype:
            return code
    return None


class _Writer:
    """Turns a structure into its JSON form and collects the tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[Any, str] = {}

    def tensor(self, value: Tensor, path: str, name: str | None = None) -> dict[str, str]:
        if _code_of(value.dtype) is None:
            raise TypeError(
                f"save: {path or 'the object'} has dtype {value.dtype}, which the file format does "
                "not know"
            )
        if value.is_meta:
            raise _C.DeviceError(
                f"save: {path or 'the object'} is on the meta device and has no data to write"
            )
        known = self._names.get(self._key(value))
        name = name or path or "tensor"
        if known is None:
            while name in self.tensors or name == "__metadata__":
                name += "'"
            self._names[self._key(value)] = known = name
            self.tensors[name] = value
        elif name not in self.tensors and self.plain:
            # A dict of tensors must show all its names to other readers.
            self.tensors[name] = value
        return {"T": known}

    plain = False

    @staticmethod
    def _of_array(value: Any, path: str) -> Tensor:
        import numpy as np

        try:
            native = value.astype(value.dtype.newbyteorder("="), copy=False)
            return _C.from_buffer(np.ascontiguousarray(native))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"save: {path or 'the object'} is an array of dtype {value.dtype}, which has no "
                "tensor counterpart (convert it)"
            ) from None

    @staticmethod
    def _key(value: Tensor) -> Any:
        if value.numel() == 0:
            return id(value)
        return (
            str(value.device),
            value.data_ptr(),
            tuple(value.shape),
            tuple(value.stride()),
            value.dtype,
        )

    def encode(self, value: Any, path: str, depth: int, active: set[int]) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"f": repr(value)}
        if isinstance(value, Tensor):
            return self.tensor(value, path)
        if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return self.encode(value.item(), path, depth, active)
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            return self.tensor(self._of_array(value, path), path)
        is_dict = isinstance(value, dict)
        if not (is_dict or kind in (list, tuple, _C.Size)):
            raise TypeError(
                f"save: {path or 'the object'} is a {kind}; expected tensors, arrays, dicts, lists, "
                "tuples, numbers, str, bool or None (convert it, for a module save its state_dict())"
            )
        if depth >= _MAX_DEPTH:
            raise ValueError(f"save: {path[:80]}... is nested deeper than {_MAX_DEPTH} levels")
        if id(value) in active:
            raise ValueError(f"save: {path} contains itself")
        active.add(id(value))
        result: Any
        if is_dict:
            pairs = []
            for key, entry in value.items():
                below = f"{path}.{key}" if path else str(key)
                pairs.append(
                    [self._key_of(key, path), self.encode(entry, below, depth + 1, active)]
                )
            result = {"d": pairs}
        else:
            items = [
                self.encode(entry, f"{path}[{i}]" if path else f"[{i}]", depth + 1, active)
                for i, entry in enumerate(value)
            ]
            result = items if kind is list else {"t": items}
        active.discard(id(value))
        return result

    def _key_of(self, key: Any, path: str) -> Any:
        if key is None or type(key) in (str, int, bool):
            return key
        if type(key) is float:
            return key if math.isfinite(key) else {"f": repr(key)}
        if type(key) is tuple:
            return {"t": [self._key_of(part, path) for part in key]}
        raise TypeError(
            f"save: the dict {path or 'itself'} has a key {key!r} of type {type(key)}; expected "
            "str, int, "
            "float, bool, None or a tuple of these"
        )


def _array(value: Tensor) -> Any:
    """A contiguous little-endian NumPy array with the tensor's bytes."""
    import numpy as np

    value = value.detach().cpu().contiguous()
    if value.dtype == _C.bfloat16:
        value = value.view(_C.int16)
    array = np.ascontiguousarray(value.numpy())
    return array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(tuple(value.shape))


def save(obj: Any, f: Any) -> None:
    """Writes a structure of tensors to `f`: a path, or a binary file object.

    Under a path the file appears only when it is complete and on disk; a symbolic link there stays,
    and what it points to is replaced. A file object is written to from where it stands.

    Raises:
        TypeError: something that is no tensor, array, container or plain value; the text names its
        place.
        DeviceError: a meta tensor, which has no data.

    >>> import flambeau as fl, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.fl")
    >>> fl.save({"step": 3, "weights": [fl.ones(2)]}, path)
    >>> fl.load(path)["weights"][0].tolist()
    [1.0, 1.0]
    """
    to_object = hasattr(f, "write")
    path = "" if to_object else _path("save", f)
    if isinstance(f, io.TextIOBase):
        raise TypeError("save: f is a text file; expected a binary one (open it with 'wb')")
    writer = _Writer()
    writer.plain = (
        isinstance(obj, dict)
        and bool(obj)
        and all(type(k) is str and isinstance(v, Tensor) for k, v in obj.items())
        and "__metadata__" not in obj
    )
    if writer.plain:
        structure: Any = {"d": [[k, writer.tensor(v, k, k)] for k, v in obj.items()]}
    else:
        structure = writer.encode(obj, "", 0, set())
    # Big elements first, so that every tensor is aligned to its element size.
    order = sorted(
        writer.tensors, key=lambda n: -_DTYPES[_code_of(writer.tensors[n].dtype) or "U8"][2]
    )
    header: dict[str, Any] = {
        "__metadata__": {_FORMAT: "1", _STRUCTURE: json.dumps(structure, separators=(",", ":"))}
    }
    offset = 0
    for name in order:
        value = writer.tensors[name]
        code = _code_of(value.dtype) or ""
        end = offset + value.numel() * _DTYPES[code][2]
        header[name] = {
            "dtype": code,
            "shape": list(value.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER_BYTES:
        raise ValueError(
            f"save: the structure needs {len(text)} bytes; at most {_MAX_HEADER_BYTES}"
        )

    def write(file: Any) -> None:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(_array(writer.tensors[name]).reshape(-1).view("u1").data)

    if to_object:
        write(f)
        return
    try:
        target = os.path.realpath(path)
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if os.path.exists(target) and not os.path.isfile(target):  # a pipe, a device
            with open(target, "wb") as file:
                write(file)
        else:
            _replace(target, write)
    except OSError as error:
        if error.errno is None or error.filename == path:
            raise
        # The names in the error are the temporary file's or the link's target.
        raise OSError(error.errno, error.strerror, path) from None


def _path(op: str, f: Any) -> str:
    try:
        return os.fsdecode(f)
    except TypeError:
        raise TypeError(
            f"{op}: f is a {type(f).__name__}; expected a path or a binary file object"
        ) from None


def _replace(path: str, write: Callable[[Any], None]) -> None:
    """Writes to a temporary name in the same folder, syncs, and renames."""
    folder, name = os.path.split(path)
    # A name may be as long as the file system allows; the temporary one holds its beginning.
    handle, temporary = tempfile.mkstemp(prefix=name[:32] + ".", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            mode = os.stat(path).st_mode & 0o777
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise
    try:
        where = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(where)
    except OSError:
        pass  # some file systems cannot sync a folder; the data itself is synced
    finally:
        os.close(where)


# ------------------------------------------------------------------------------------------ loading


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FileFormatError(f"the name {key!r} appears twice")
            seen.add(key)
    return result


def _json(text: str, what: str) -> Any:
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


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _check_entry(name: str, entry: Any, n_data: int) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"tensor {name!r} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise FileFormatError(
            f"tensor {name!r} has dtype {code!r}; expected one of {', '.join(_DTYPES)}"
        )
    if not isinstance(shape, list) or len(shape) > _MAX_DIMS or not all(map(_is_count, shape)):
        raise FileFormatError(f"tensor {name!r} has shape {str(shape)[:80]}; expected sizes >= 0")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise FileFormatError(f"tensor {name!r} has data_offsets {str(offsets)[:80]}; expected two")
    begin, end = offsets
    if begin > end or end > n_data:
        raise FileFormatError(
            f"tensor {name!r} has data_offsets [{begin}, {end}], but the file has {n_data} data "
            "bytes "
            "(truncated?)"
        )
    item = _DTYPES[code][2]
    if item * math.prod(size for size in shape if size) > _MAX_BYTES:
        raise FileFormatError(
            f"tensor {name!r} of shape {str(shape)[:80]} needs more than {_MAX_BYTES} bytes"
        )
    n = item * math.prod(shape)
    if n != end - begin:
        raise FileFormatError(
            f"tensor {name!r} of dtype {code} and shape {shape} needs {n} bytes, but its "
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
                f"tensor {name!r} at byte {begin} {what} {before!r}, which ends at {at}"
            )
        at, before = end, name
    if at != n_data:
        raise FileFormatError(f"the tensors end at byte {at}, but the file has {n_data} data bytes")


def _check_structure(node: Any, entries: dict[str, Any], depth: int = 0) -> None:
    if depth > 2 * _MAX_DEPTH:
        raise FileFormatError(f"the structure is nested deeper than {_MAX_DEPTH} levels")
    if node is None or isinstance(node, (bool, int, float, str)):
        return
    if isinstance(node, list):
        for entry in node:
            _check_structure(entry, entries, depth + 1)
        return
    kind, value = next(iter(node.items())) if len(node) == 1 else (None, None)
    if kind == "T" and isinstance(value, str):
        if value not in entries:
            raise FileFormatError(f"the structure names a tensor {value!r} that is not in the file")
    elif kind == "f" and value in ("nan", "inf", "-inf"):
        pass
    elif kind == "t" and isinstance(value, list):
        for entry in value:
            _check_structure(entry, entries, depth + 1)
    elif kind == "d" and isinstance(value, list):
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2:
                raise FileFormatError(
                    "a dict of the structure has an entry that is no (key, value) pair"
                )
            _check_key(pair[0])
            _check_structure(pair[1], entries, depth + 1)
    else:
        raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")


def _check_key(key: Any, depth: int = 0) -> None:
    if key is None or isinstance(key, (bool, int, float, str)):
        return
    if isinstance(key, dict) and len(key) == 1 and depth < 10:
        if key.get("f") in ("nan", "inf", "-inf"):
            return
        if isinstance(key.get("t"), list):
            for part in key["t"]:
                _check_key(part, depth + 1)
            return
    raise FileFormatError(f"the structure holds an unknown dict key {str(key)[:80]}")


def _read_header(file: Any, size: int) -> tuple[dict[str, Any], dict[str, str], int]:
    """Returns (tensor entries, metadata, where the data starts), all checked."""
    if size < 8:
        raise FileFormatError(f"has {size} bytes; a safetensors file has at least 8")
    n = int.from_bytes(file.read(8), "little")
    if n > min(size - 8, _MAX_HEADER_BYTES):
        raise FileFormatError(
            f"announces a header of {n} bytes, but has {size - 8} bytes behind the length (and "
            "at most "
            f"{_MAX_HEADER_BYTES} are allowed): truncated, or not a safetensors file"
        )
    raw = file.read(n)
    if len(raw) != n:
        raise FileFormatError(f"ended while its header of {n} bytes was read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"its header is not UTF-8: {error}") from None
    header = _json(text, "its header")
    if not isinstance(header, dict):
        raise FileFormatError("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileFormatError("its __metadata__ is not an object of strings")
    for name, entry in header.items():
        _check_entry(name, entry, size - 8 - n)
    _check_layout(header, size - 8 - n)
    return header, metadata, 8 + n


def _decode(node: Any, tensor: Callable[[str], Tensor]) -> Any:
    if isinstance(node, list):
        return [_decode(entry, tensor) for entry in node]
    if not isinstance(node, dict):
        return node
    kind, value = next(iter(node.items()))
    if kind == "T":
        return tensor(value)
    if kind == "f":
        return float(value)
    if kind == "t":
        return tuple(_decode(entry, tensor) for entry in value)
    return {_decode(key, tensor): _decode(entry, tensor) for key, entry in value}


def load(
    f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None
) -> Any:
    """Reads what `save` wrote, or any safetensors file as a dict of tensors.

    Nothing in the file is ever executed.

    Args:
        f: a path, or a binary file object, which is read to its end.
        map_location: where the tensors go: a device; a function of (tensor, 'cpu') that returns
            the tensor to use, or None to leave it; or a dict from 'cpu' to a device.
        weights_only: accepted; either way the file holds data only.
        mmap: True or None maps a file given by its path into memory, copy-on-write, so that a
            tensor's bytes are read when they are used; False reads the file.

    Raises:
        FileNotFoundError: there is no such file.
        FileFormatError: (a ValueError) the file is truncated, damaged or hostile; the text says
        how.
    """
    move = _mover(map_location)
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap = True with a file object; expected a path")
        if isinstance(f, io.TextIOBase):
            raise TypeError("load: f is a text file; expected a binary one (open it with 'rb')")
        raw = f.read()
        return _load(io.BytesIO(raw), str(getattr(f, "name", type(f).__name__)), len(raw), move, False)
    path = _path("load", f)
    with open(path, "rb") as file:
        return _load(file, path, os.fstat(file.fileno()).st_size, move, mmap is not False)


def _mover(map_location: Any) -> Callable[[Tensor], Tensor]:
    """What `map_location` means for a tensor; all are on the CPU in the file."""
    if isinstance(map_location, dict):
        map_location = map_location.get("cpu", map_location.get(_C.device("cpu")))
    if map_location is None:
        return lambda value: value
    if not callable(map_location):
        return lambda value: value.to(map_location)  # type: ignore[no-any-return]

    def call(value: Tensor) -> Tensor:
        result = map_location(value, "cpu")
        if result is None:
            return value
        if not isinstance(result, Tensor):
            raise TypeError(
                f"load: map_location returned a {type(result).__name__}; expected a Tensor or None"
            )
        return result

    return call


def _load(file: Any, path: str, size: int, move: Callable[[Tensor], Tensor], mmap: bool) -> Any:
    try:
        entries, metadata, start = _read_header(file, size)
        structure: Any = None
        if _STRUCTURE in metadata:
            if metadata.get(_FORMAT) != "1":
                raise FileFormatError(
                    f"has {_FORMAT} = {metadata.get(_FORMAT)!r}; this version reads '1' (upgrade?)"
                )
            structure = _json(metadata[_STRUCTURE], "its structure")
            _check_structure(structure, entries)
        else:
            structure = {"d": [[name, {"T": name}] for name in entries]}
        return _decode(structure, _reader(file, entries, start, size, move, mmap))
    except FileFormatError as error:
        raise FileFormatError(f"load: {path} {error}") from None


def _reader(
    file: Any,
    entries: dict[str, Any],
    start: int,
    size: int,
    move: Callable[[Tensor], Tensor],
    mmap: bool,
) -> Callable[[str], Tensor]:
    import numpy as np

    data: Any = None  # the whole file
    if size > start and mmap:
        data = np.asarray(np.memmap(file, dtype="u1", mode="c", offset=0, shape=(size,)))
    elif size > start:
        file.seek(0)
        data = np.frombuffer(bytearray(file.read(size)), dtype="u1")
        if len(data) != size:
            raise FileFormatError(f"ended at byte {len(data)} of {size} while it was read")
    loaded: dict[str, Tensor] = {}

    def tensor(name: str) -> Tensor:
        if name in loaded:
            return loaded[name].detach()  # another tensor over the same memory
        entry = entries[name]
        dtype_name, numpy_name, item = _DTYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        if data is None or begin == end:
            flat = np.zeros(0, dtype=numpy_name)
        else:
            flat = data[start + begin : start + end]
            if (start + begin) % item:
                flat = flat.copy()
            if dtype_name == "bool" and flat.max() > 1:
                raise FileFormatError(f"tensor {name!r} of dtype BOOL holds a byte {flat.max()}")
            flat = flat.view(numpy_name)
        if not flat.dtype.isnative:
            flat = flat.astype(flat.dtype.newbyteorder("="))
        value = _C.from_buffer(flat)
        if dtype_name == "bfloat16":
            value = value.view(_C.bfloat16)
        value = move(value.view(entry["shape"]))
        loaded[name] = value
        return value

    return tensor
