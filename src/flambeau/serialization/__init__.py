"""`save` and `load`: nested containers of tensors in one safetensors file.

The tensors make an ordinary safetensors file (`_container.py`), and the structure around them is JSON in its metadata
(`_structure.py`). So a dict of tensors written here opens in every safetensors reader and the other way round, and
loading runs no code from the file: everything is checked before the first tensor is made.

What comes back is what was saved: classes (`Parameter`, `OrderedDict` with a state dict's `_metadata`), `requires_grad`,
objects that are met twice, and tensors that share memory (`_sharing.py`). NumPy arrays come back as tensors.
"""

from __future__ import annotations

import io
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.serialization._container import (
    FileFormatError,
    container_of,
    parse_json,
    read_header,
    reader,
)
from flambeau.serialization._files import path_of, write_file
from flambeau.serialization._sharing import Entries
from flambeau.serialization._structure import Checker, Decoder, Encoder, is_sparse

__all__ = ["FileFormatError", "load", "save"]

_FORMAT = "flambeau.format"
_STRUCTURE = "flambeau.structure"
_WRITES, _READS = "2", ("1", "2")  # "1" is a subset


def save(obj: Any, f: Any) -> None:
    """Writes a structure of tensors to `f`: a path, or a binary file object.

    Tensors that share memory share it again after loading, also where one is a view of another; what is written is the
    memory that they reach, not their whole storages. A transposed tensor keeps its strides, one with gaps (`x[::2]`)
    comes back row-major. `requires_grad`, `Parameter`, `Buffer` and `OrderedDict` are kept; attributes of tensors are not.

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
    path = "" if to_object else path_of("save", f)
    if isinstance(f, io.TextIOBase):
        raise TypeError("save: f is a text file; expected a binary one (open it with 'wb')")
    encoder = Encoder()
    plain = _is_dict_of_tensors(obj)
    if plain:  # a key is the entry's name, also where it looks like a path
        kind = "o" if isinstance(obj, OrderedDict) else "d"
        structure: Any = {kind: [[k, encoder.tensor(v, k, k)] for k, v in obj.items()]}
        if kind == "o" and isinstance(getattr(obj, "_metadata", None), dict):
            structure["m"] = encoder.encode(obj._metadata, "_metadata")
    else:
        structure = encoder.encode(obj)
    entries = Entries(plain)
    entries.place(encoder.met)
    text = json.dumps(structure, separators=(",", ":"))
    write = container_of(entries.tensors, {_FORMAT: _WRITES, _STRUCTURE: text})
    if to_object:
        write(f)
    else:
        write_file(path, write)


def _is_dict_of_tensors(obj: Any) -> bool:
    return (
        isinstance(obj, dict)
        and bool(obj)
        and all(type(k) is str and isinstance(v, Tensor) and not is_sparse(v) for k, v in obj.items())
        and "__metadata__" not in obj
    )


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
    path = path_of("load", f)
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
        entries, metadata, start = read_header(file, size)
        structure: Any = {"d": [[name, {"T": name}] for name in entries]}
        if _STRUCTURE in metadata:
            if metadata.get(_FORMAT) not in _READS:
                raise FileFormatError(
                    f"has {_FORMAT} = {metadata.get(_FORMAT)!r}; this version reads "
                    f"{' and '.join(map(repr, _READS))} (upgrade?)"
                )
            structure = parse_json(metadata[_STRUCTURE], "its structure")
            Checker(entries).check(structure)
        return Decoder(reader(file, entries, start, size, move, mmap)).decode(structure)
    except FileFormatError as error:
        raise FileFormatError(f"load: {path} {error}") from None
