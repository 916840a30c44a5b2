"""`save` and `load`: nested containers of tensors in one safetensors file, and the files of others.

The tensors make an ordinary safetensors file (`_container.py`), and the structure around them is JSON in its metadata
(`_structure.py`). So a dict of tensors written here opens in every safetensors reader and the other way round, and
loading runs no code from the file: everything is checked before the first tensor is made.

What comes back is what was saved: classes (`Parameter`, `OrderedDict` with a state dict's `_metadata`), `requires_grad`,
objects that are met twice, and tensors that share memory (`_sharing.py`). NumPy arrays come back as tensors.

    file's bytes         _source          mapped, read, or in memory
    format               _recognize       by the first bytes
    safetensors          _container, and the structure in its metadata: _structure, _sharing
    PyTorch's            _torch: archives (_zip) and streams, whose pickles run on a machine (_pickle) that knows few names
    (_torch_names, _allowed);
                         written by _torch_write
    classes of the user  _named: objects that are data, by the name of their class
    others               _npy, _gguf, _sharded (an index of several files, and safe_open)
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any

from flambeau._C import Tensor, device
from flambeau.serialization import _torch
from flambeau.serialization._allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    modules_allowed,
    safe_globals,
)
from flambeau.serialization._container import container_of, parse_json, read_header, reader
from flambeau.serialization._errors import EmptyFileError, FileFormatError, RefusedName, short
from flambeau.serialization._files import path_of, write_file
from flambeau.serialization._gguf import GGUF
from flambeau.serialization._named import Allowed, ways_in
from flambeau.serialization._npy import is_npz, read_npy, read_npz
from flambeau.serialization._old_text import OldText, old_text_of
from flambeau.serialization._place import mover
from flambeau.serialization._recognize import format_of
from flambeau.serialization._sharded import read_index, safe_open
from flambeau.serialization._sharing import Entries
from flambeau.serialization._skip import is_skipped, skip_data
from flambeau.serialization._source import Source
from flambeau.serialization._structure import Checker, Decoder, Encoder, is_sparse
from flambeau.serialization._torch import Move
from flambeau.serialization._torch_write import archive_of, stream_of
from flambeau.serialization._zip import Archive

__all__ = [
    "FileFormatError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
    "safe_globals", "safe_open", "save", "skip_data",
]  # fmt: skip

DEFAULT_PROTOCOL = 2  # of the pickles that PyTorch's files contain
# What annotations of programs name.
FILE_LIKE = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None

_FORMAT = "flambeau.format"
_STRUCTURE = "flambeau.structure"
_READS = ("1", "2", "3")  # each has all nodes of those before; what is written says the first that has its nodes


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    format: str | None = None,
) -> None:
    """Writes a structure of tensors to `f`: a path, or a binary file object.

    `format` is None or "safetensors" for a safetensors file with the structure in its metadata, which is written whatever the path
    ends with; "pt" for an archive that PyTorch's `torch.load` reads.

    Tensors that share memory share it again after loading, also where one is a view of another; what is written is the
    memory that they reach, not their whole storages. A transposed tensor keeps its strides, one with gaps (`x[::2]`)
    comes back row-major. `requires_grad`, `Parameter`, `Buffer` and the types of containers are kept; attributes of tensors by "pt" alone.
    A `defaultdict` has to make something empty of Python's (`list`, `int`, ...). Enums, paths, namespaces, dataclasses and objects of
    derived containers are written by the name of their class, which loading wants allowed (`add_safe_globals`): docs/files.md.

    Under a path the file appears only when it is complete and on disk; a symbolic link there stays,
    and what it points to is replaced. A file object is written to from where it stands.

    Nothing is pickled: `pickle_module` and `pickle_protocol` are taken for PyTorch's sake, and have no say. With `format="pt"`
    `_use_new_zipfile_serialization=False` writes a stream, as PyTorch did before its version 1.6.

    Raises:
        TypeError: something that is no tensor, array, container, plain value or object of a class that is data; the text names its
        place.
        DeviceError: a meta tensor, which has no data.
        ValueError: a format that is not known, or `_use_new_zipfile_serialization=False` for another than "pt".

    >>> import flambeau as fl, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.fl")
    >>> fl.save({"step": 3, "weights": [fl.ones(2)]}, path)
    >>> fl.load(path)["weights"][0].tolist()
    [1.0, 1.0]
    """
    _check_pickle_module("save", pickle_module)
    if not _use_new_zipfile_serialization and format != "pt":
        raise ValueError(
            f"save: _use_new_zipfile_serialization = {_use_new_zipfile_serialization} with format = {format!r}; expected True, or "
            'format="pt", for which it means a file as PyTorch wrote them before its version 1.6'
        )
    if is_skipped() and (format != "pt" or not _use_new_zipfile_serialization):
        raise FileFormatError('save: inside of skip_data an archive of PyTorch\'s is written alone: format="pt"')
    to_object = hasattr(f, "write")
    path = "" if to_object else path_of("save", f)
    if isinstance(f, io.TextIOBase):
        raise TypeError("save: f is a text file; expected a binary one (open it with 'wb')")
    if format not in (None, "safetensors", "pt"):
        raise ValueError(f"save: format = {format!r}; expected None, 'safetensors' or 'pt'")
    if format == "pt":
        write = archive_of(obj, byteorder=not _disable_byteorder_record) if _use_new_zipfile_serialization else stream_of(obj)
    else:
        write = _our_format(obj)
    if to_object:
        write(f)
        if callable(flush := getattr(f, "flush", None)):  # who opens the file by its name next shall find all of it
            flush()
    else:
        write_file(path, write)


def _check_pickle_module(op: str, module: Any) -> None:
    """What pickles has no say, but a string in its place was meant for another argument."""
    if module is not None and not hasattr(module, "Unpickler"):
        way = "pass format= by its name" if op == "save" else "expected None or a module, which is ignored"
        raise TypeError(f"{op}: pickle_module = {module!r}; {way}")


def _our_format(obj: Any) -> Callable[[Any], None]:
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
    return container_of(entries.tensors, {_FORMAT: "3" if encoder.newer else "2", _STRUCTURE: text})


def _is_dict_of_tensors(obj: Any) -> bool:
    return (
        type(obj) in (dict, OrderedDict)
        and bool(obj)
        and all(type(k) is str and isinstance(v, Tensor) and not is_sparse(v) for k, v in obj.items())
        and "__metadata__" not in obj
    )


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads a file of tensors: what `save` wrote, safetensors, PyTorch's `.pt`, NumPy's `.npz` and `.npy`, GGUF, or an index of shards.

    Which it is, its first bytes say. Nothing in the file is ever executed: a `.pt` file's pickle is run by a machine that makes
    tensors and plain containers and refuses all else: docs/files.md.

    Args:
        f: a path, or a binary file object, which is read to its end; where PyTorch's older format stands in it several times, to the end of
            the next one.
        map_location: where the tensors go: a device; a function of (storage, location) that returns the storage to use (or a tensor
            of the same elements), or None to leave it; or a dict from locations to devices. The location is 'cpu' but in PyTorch's files.
        pickle_module: taken for PyTorch's sake; no module unpickles.
        weights_only: False, for a file that you trust, makes objects of the classes that it names where the program has imported them:
            enums, dataclasses, whole modules, ordinary objects. They are made without their `__init__`; no function that the file names
            is called. Classes that may do harm are left out, as are those with a `__reduce__` of their own: docs/files.md.
            `serialization.add_safe_globals` allows these.
        mmap: True or None maps a file given by its path into memory, copy-on-write, so that a
            tensor's bytes are read when they are used (checksums of PyTorch's and NumPy's archives are compared only where it is False);
            False reads the file.
        pickle_load_args: `encoding` and `errors`, for texts in PyTorch files that Python 2 wrote: the name of an encoding, or "bytes",
            which leaves them bytes. Without it UTF-8 becomes text, and all else stays bytes.

    Returns:
        What was saved. Of safetensors, `.npz`, GGUF and an index a dict of tensors by their names, of a TorchScript archive the
        tensors of its state dict.

    Raises:
        FileNotFoundError: there is no such file.
        EOFError: it has no bytes.
        FileFormatError: (a ValueError) the file is truncated, damaged or hostile, or holds what has no counterpart here; the text says
            how, and where.
        DeviceError: a PyTorch file's tensors were on a device that is not here, and there is no `map_location`.

    >>> import flambeau as fl, io
    >>> file = io.BytesIO()
    >>> fl.save({"x": fl.arange(3)}, file, format="pt")
    >>> fl.load(io.BytesIO(file.getvalue()))
    {'x': tensor([0, 1, 2])}
    """
    _check_pickle_module("load", pickle_module)
    move, text = mover(map_location), old_text_of(pickle_load_args)
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap = True with a file object; expected a path")
        if isinstance(f, io.TextIOBase):
            raise TypeError("load: f is a text file; expected a binary one (open it with 'rb')")
        begin, raw = _place(f), f.read()
        source = Source(str(getattr(f, "name", type(f).__name__)), len(raw), raw=raw, goes_on=begin is not None)
        value = _load(source, move, weights_only, text)
        if begin is not None and source.end != source.size:
            f.seek(begin + source.end)
        return value
    with Source.open(path_of("load", f), mmap is not False) as source:
        return _load(source, move, weights_only, text)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Names in a PyTorch file that `load` would refuse, and that `add_safe_globals` could allow; nothing of the file is run.

    >>> import flambeau as fl, io
    >>> file = io.BytesIO()
    >>> fl.save({"x": fl.arange(3)}, file, format="pt")
    >>> fl.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
    []
    """
    raw = f.read() if hasattr(f, "read") else None
    with Source("the file", len(raw), raw=raw) if raw is not None else Source.open(path_of("load", f), True) as source:
        try:
            kind = format_of(source)
            if kind not in ("zip", "stream"):
                return []
            return _torch.unknown_names(source, Archive(source) if kind == "zip" else None)
        except FileFormatError as error:
            raise FileFormatError(f"load: {source.path} {error}") from None


def _place(file: Any) -> int | None:
    """Where a file object stands; None where it can not be put back."""
    try:
        return int(file.tell()) if file.seekable() else None
    except (AttributeError, OSError):
        return None


def _load(source: Source, move: Move, weights_only: bool | None, text: OldText) -> Any:
    if not source.size:
        raise EmptyFileError(f"load: {source.path} has 0 bytes; expected a file of tensors, or a file object at its begin (seek(0))")
    try:
        kind = format_of(source)
        if kind in ("zip", "stream"):
            return _load_foreign(source, kind, move, weights_only, text)
        if kind == "npy":
            return move(read_npy(source), "cpu")
        if kind == "gguf":
            gguf = GGUF(source)
            return {name: move(gguf.tensor(name), "cpu") for name in gguf.tensors}
        if kind == "index" and source.path.endswith(".json"):
            return _load_shards(source, move, weights_only, text)
        entries, metadata, start = read_header(source)
        with modules_allowed() if weights_only is False else contextlib.nullcontext():
            allowed = Allowed()
        structure: Any = {"d": [[name, {"T": name}] for name in entries]}
        if _STRUCTURE in metadata:
            if metadata.get(_FORMAT) not in _READS:
                raise FileFormatError(
                    f"has {_FORMAT} = {short(metadata.get(_FORMAT))}; this version reads "
                    f"{', '.join(map(repr, _READS))} (upgrade?)"
                )
            structure = parse_json(metadata[_STRUCTURE], "its structure")
            Checker(entries, allowed).check(structure)
        return Decoder(reader(source, entries, start, lambda value: move(value, "cpu")), allowed).decode(structure)
    except FileFormatError as error:
        what = str(error)
        raise FileFormatError(what if what.startswith("load: ") else f"load: {source.path} {what}") from None


def _load_foreign(source: Source, kind: str, move: Move, weights_only: bool | None, text: OldText) -> Any:
    archive = Archive(source) if kind == "zip" else None
    folder = _torch.find_objects(archive) if archive is not None else None
    if archive is not None and folder is None:
        if not is_npz(archive):
            raise FileFormatError(
                f"is a zip archive of {len(archive.entries)} entries, but neither PyTorch's (NAME/data.pkl) nor NumPy's (NAME.npy)"
            )
        return {name: move(value, "cpu") for name, value in read_npz(archive).items()}
    try:
        with modules_allowed() if weights_only is False else contextlib.nullcontext():
            if archive is None or folder is None:
                return _torch.read_stream(source, move, text)
            return _torch.read_archive(archive, folder, move, text)
    except RefusedName as error:
        now = _torch.refused_names(source, archive)
        with modules_allowed():
            then = _torch.refused_names(source, archive)
        raise FileFormatError(f"{error}{ways_in(then, None) if weights_only is False else ways_in(now, then)}") from None


def _load_shards(source: Source, move: Move, weights_only: bool | None, text: OldText) -> dict[str, Tensor]:
    """The tensors that an index names, in its order, whatever of the two formats its files have."""
    _, files = read_index(source)
    folder = os.path.dirname(source.path)
    found: dict[str, Any] = {}
    for file in dict.fromkeys(files.values()):
        path = os.path.join(folder, file)
        with Source.open(path, source.mapped, regular=True) as shard:
            if format_of(shard) not in ("safetensors", "zip", "stream"):
                raise FileFormatError(f"is an index that names {short(file)}, which is no file of tensors")
            found[file] = _load(shard, move, weights_only, text)
    result = {}
    for name, file in files.items():
        value = found[file].get(name) if isinstance(found[file], dict) else None
        if not isinstance(value, Tensor):
            raise FileFormatError(f"is an index that names a tensor {short(name)} in {short(file)}, which has none")
        result[name] = value
    return result
