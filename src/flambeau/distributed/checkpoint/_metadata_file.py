"""The file `.metadata`: a pickle of `Metadata`, as PyTorch writes it.

    Metadata ── state_dict_metadata ── name: TensorStorageMetadata ── properties: TensorProperties, chunks: [ChunkStorageMetadata]
            │                          name: BytesStorageMetadata
            ├── storage_data ───────── MetadataIndex: _StorageInfo (file, offset, length)
            ├── planner_data ───────── name: path, by the default planner
            └── storage_meta, version

It is run by the machine that reads PyTorch's archives (`serialization/_pickle.py`), to which the classes above are names for records: a
name, and the state that the file gives it. Records are looked at, and made into objects, when the machine is done. So nothing of the file
runs, and what it says is true of the bytes that it names, or refused.
"""

from __future__ import annotations

import math
import os
import pathlib
from dataclasses import dataclass
from typing import Any

from flambeau import _C
from flambeau._memory_format import (
    LAYOUTS,
    channels_last,
    contiguous_format,
    preserve_format,
    strided,
)
from flambeau.distributed.checkpoint.metadata import (
    _MEM_FORMAT_ENCODING,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from flambeau.serialization._errors import FileFormatError, RefusedName, short
from flambeau.serialization._named import ways_in
from flambeau.serialization._pickle import Global, Machine
from flambeau.serialization._torch_names import TorchNames
from flambeau.serialization._torch_write import _Encoder, _Pickler

_HOME = "torch.distributed.checkpoint.metadata"
_INFO = "torch.distributed.checkpoint.filesystem._StorageInfo"
_CLASSES = {
    f"{_HOME}.{kind.__name__}": kind
    for kind in (Metadata, TensorStorageMetadata, BytesStorageMetadata, ChunkStorageMetadata, TensorProperties, MetadataIndex, StorageMeta)
}
_FORMAT = f"{_HOME}._MEM_FORMAT_ENCODING"
_LAYOUT = "torch.serialization._get_layout"
_PATHS = frozenset(f"pathlib{part}.{kind}" for part in ("", "._local") for kind in ("PosixPath", "WindowsPath"))
_FORMATS = {contiguous_format: 0, channels_last: 1, preserve_format: 2}
_LAYOUT_NAMES = {kind: f"torch.{name}" for name, kind in LAYOUTS.items()}
_MOST_GAPS = 1000  # items of lists that no entry names


@dataclass
class _StorageInfo:
    """Where a piece lies: the file's name in the folder, and the bytes."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


# ------------------------------------------------------------------------------------------- writing


class _MetadataEncoder(_Encoder):
    """Knows the classes of checkpoints beside what an archive may hold."""

    def encode(self, value: Any, path: str = "", depth: int = 0) -> Any:
        kind = type(value)
        if kind is TensorProperties:
            layout = {"O": " ".join(_LAYOUT.rsplit(".", 1)), "args": [_LAYOUT_NAMES[value.layout]], "state": None}
            form = {"O": " ".join(_FORMAT.rsplit(".", 1)), "args": [_FORMATS.get(value.memory_format, 0)], "state": None}
            held = {"t": [self.encode(value.dtype), layout, value.requires_grad, form, value.pin_memory]}
            return {"N": f"{_HOME} TensorProperties", "state": held}
        if kind is _StorageInfo:
            known = {name: part for name, part in vars(value).items() if part is not None}
            return {"N": " ".join(_INFO.rsplit(".", 1)), "state": self.encode(known, path, depth + 1)}
        if f"{_HOME}.{kind.__name__}" in _CLASSES and kind is _CLASSES[f"{_HOME}.{kind.__name__}"]:
            held = {"d": [[name, self.encode(part, path or name, depth + 1)] for name, part in vars(value).items()]}
            return {"N": f"{_HOME} {kind.__name__}", "state": held}
        if isinstance(value, pathlib.PurePath):
            name = "WindowsPath" if isinstance(value, pathlib.PureWindowsPath) else "PosixPath"
            return {"O": f"pathlib {name}", "args": list(value.parts), "state": None}
        return super().encode(value, path, depth)


def metadata_bytes(metadata: Metadata) -> bytes:
    """The file's bytes.

    Raises:
        TypeError: a planner's or a storage's own data is nothing that archives may hold.
    """
    return _Pickler([]).bytes_of(_MetadataEncoder().encode(metadata))


# ------------------------------------------------------------------------------------------- reading


class _Record:
    """An object of one of the classes of checkpoints, as the file has it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: Any = None

    def __repr__(self) -> str:
        return f"a {self.name.rpartition('.')[2]}"


class _MetadataNames(TorchNames):
    """Names of a `.metadata` file."""

    def find(self, name: str) -> Any:
        if name in _CLASSES or name == _INFO:
            return Global(name, lambda args: self._record(name, args), new=True)
        if name == _LAYOUT:
            return Global(name, self._layout)
        if name == _FORMAT:
            return Global(name, self._format)
        if name in _PATHS:
            return Global(name, self._path)
        return super().find(name)

    def storage_of(self, pid: tuple[Any, ...]) -> Any:
        raise FileFormatError("it names a storage, and metadata has none")

    def is_allowed(self, cls: Any) -> bool:
        return cls is _Record or super().is_allowed(cls)

    def build(self, target: Any, state: Any) -> None:
        if type(target) is not _Record:
            super().build(target, state)
            return
        wanted = tuple if target.name.endswith("TensorProperties") else dict
        if type(state) is not wanted or target.state is not None or (wanted is dict and not all(type(key) is str for key in state)):
            raise FileFormatError(f"{target} has the state {short(state)}; expected one {wanted.__name__}")
        target.state = state

    def _record(self, name: str, args: tuple[Any, ...]) -> _Record:
        if args:
            raise FileFormatError(f"{name} is made of {short(args)}; expected a state")
        return _Record(name)

    def _layout(self, args: tuple[Any, ...]) -> Any:
        kinds = {name: kind for kind, name in _LAYOUT_NAMES.items()}
        if len(args) != 1 or type(args[0]) is not str or args[0] not in kinds:
            raise FileFormatError(f"a layout is {short(args)}; expected one of {', '.join(kinds)}")
        return kinds[args[0]]

    def _format(self, args: tuple[Any, ...]) -> Any:
        if len(args) != 1 or type(args[0]) is not int or not 0 <= args[0] < len(_FORMATS):
            raise FileFormatError(f"a memory format is {short(args)}; expected 0 to {len(_FORMATS) - 1}")
        return _MEM_FORMAT_ENCODING(args[0])

    def _path(self, args: tuple[Any, ...]) -> Any:
        if not all(type(part) is str for part in args):
            raise FileFormatError(f"a path is made of {short(args)}; expected texts")
        self.charge(sum(map(len, args)), "a path")
        return pathlib.Path(*args)


def read_metadata(raw: bytes, where: str) -> Metadata:
    """What the bytes of a `.metadata` file say; `where` names it in errors.

    Raises:
        FileFormatError: they are truncated, damaged or hostile.
    """
    if not raw:
        raise FileFormatError(f"load: {where} has 0 bytes; expected the metadata of a checkpoint (was saving interrupted?)")
    try:
        names = _MetadataNames(len(raw))
        machine = Machine(raw, 0, ".metadata", names)
        value = machine.run()
        if machine.at != len(raw):
            raise FileFormatError(f"has {len(raw) - machine.at} bytes behind the end of its pickle")
        return _metadata(value)
    except RefusedName as error:
        raise FileFormatError(f"load: {where} {error}{ways_in([error.name], None)}") from None
    except FileFormatError as error:
        raise FileFormatError(f"load: {where} {error}") from None


def _state(value: Any, kind: str, *required: str) -> Any:
    if type(value) is not _Record or value.name.rpartition(".")[2] != kind:
        raise FileFormatError(f"holds {_said(value)} where a {kind} is expected")
    state: Any = value.state or {}
    if lacking := [name for name in required if name not in state]:
        raise FileFormatError(f"holds a {kind} without {', '.join(lacking)}")
    return state


def _said(value: Any) -> str:
    return repr(value) if type(value) is _Record else short(value)


def _sizes(value: Any, what: str, dims: int | None = None) -> _C.Size:
    fits = type(value) in (_C.Size, tuple, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)
    if not fits or len(value) > 64 or (dims is not None and len(value) != dims):
        raise FileFormatError(f"{what} is {short(value)}; expected {'sizes' if dims is None else f'{dims} numbers'}")
    return _C.Size(value)


def _metadata(value: Any) -> Metadata:
    state = _state(value, "Metadata", "state_dict_metadata")
    entries = state["state_dict_metadata"]
    if type(entries) is not dict or not all(type(name) is str for name in entries):
        raise FileFormatError(f"has the entries {_said(entries)}; expected a dict by names")
    made: dict[str, Any] = {name: _entry(name, held) for name, held in entries.items()}
    storage = state.get("storage_data")
    if type(storage) is not dict:
        raise FileFormatError(f"says {_said(storage)} of where its entries lie; expected a dict")
    infos = {}
    for key, held in storage.items():
        index = _index(key)
        infos[index] = _info(held, index.fqn)
    for name, md in made.items():
        _check_places(name, md, infos)
    meta = state.get("storage_meta")
    version = state.get("version")
    if version is not None and type(version) is not str:
        raise FileFormatError(f"has the version {_said(version)}; expected text")
    return Metadata(made, _planner_data(state.get("planner_data"), len(made)), infos, None if meta is None else _meta(meta), version)


def _entry(name: str, value: Any) -> TensorStorageMetadata | BytesStorageMetadata:
    if type(value) is _Record and value.name.endswith("BytesStorageMetadata"):
        return BytesStorageMetadata()
    state = _state(value, "TensorStorageMetadata", "properties", "size", "chunks")
    what = f"the tensor {short(name)}"
    size = _sizes(state["size"], f"the size of {what}")
    if type(state["chunks"]) is not list:
        raise FileFormatError(f"has {what} in {_said(state['chunks'])}; expected a list of pieces")
    chunks = []
    for piece in state["chunks"]:
        parts = _state(piece, "ChunkStorageMetadata", "offsets", "sizes")
        offsets, sizes = (_sizes(parts[key], f"{key} of a piece of {what}", len(size)) for key in ("offsets", "sizes"))
        if any(begin + count > n for begin, count, n in zip(offsets, sizes, size)):
            raise FileFormatError(f"has a piece of {what} at {list(offsets)} of {list(sizes)}, beyond its size {list(size)}")
        chunks.append(ChunkStorageMetadata(offsets, sizes))
    if (held := sum(math.prod(piece.sizes) for piece in chunks)) < math.prod(size):
        raise FileFormatError(f"has {what} of {math.prod(size)} elements in pieces of {held}")
    return TensorStorageMetadata(_properties(state["properties"], what), size, chunks)


def _properties(value: Any, what: str) -> TensorProperties:
    state = _state(value, "TensorProperties")
    fits = type(state) is tuple and len(state) == 5 and isinstance(state[0], _C.dtype) and type(state[3]) is _MEM_FORMAT_ENCODING
    if not fits or type(state[2]) is not bool or type(state[4]) is not bool or state[1] not in _LAYOUT_NAMES:
        raise FileFormatError(f"has {short(state)} as the properties of {what}; expected type, layout and flags")
    dtype, layout, grad, form, pinned = state
    if layout is not strided:
        raise FileFormatError(f"has {what} in the layout {layout}, which no checkpoint has")
    return TensorProperties(dtype, layout, grad, list(_FORMATS)[form.value], pinned)


def _index(value: Any) -> MetadataIndex:
    state = _state(value, "MetadataIndex", "fqn")
    name, offset, hint = state["fqn"], state.get("offset"), state.get("index")
    if type(name) is not str or not (hint is None or (type(hint) is int and 0 <= hint < 2**63)):
        raise FileFormatError(f"has an index of name {_said(name)} and number {_said(hint)}")
    return MetadataIndex(name, None if offset is None else _sizes(offset, f"the place of {short(name)}"), hint)


def _info(value: Any, name: str) -> _StorageInfo:
    state = _state(value, "_StorageInfo", "relative_path", "offset", "length")
    path, offset, length = state["relative_path"], state["offset"], state["length"]
    if not all(type(n) is int and 0 <= n < 2**63 for n in (offset, length)):
        raise FileFormatError(f"has {short(name)} at {_said(offset)} of {_said(length)} bytes; expected numbers")
    parts = pathlib.PurePath(path).parts if type(path) is str else ()
    if not parts or os.path.isabs(path) or ".." in parts or "\0" in path or "\\" in path:
        raise FileFormatError(f"has {short(name)} in the file {_said(path)}, which is not in its folder")
    ways = state.get("transform_descriptors")
    if ways is not None and not (type(ways) in (list, tuple) and all(type(way) is str for way in ways)):
        raise FileFormatError(f"has {short(name)} transformed by {_said(ways)}; expected names")
    return _StorageInfo(path, offset, length, ways or None)


def _check_places(name: str, md: Any, infos: dict[MetadataIndex, _StorageInfo]) -> None:
    """Each piece has a place, and the bytes that its elements need; so sizes are no larger than files."""
    pieces = [(MetadataIndex(name), 0)]
    if isinstance(md, TensorStorageMetadata):
        itemsize = int(md.properties.dtype.itemsize)
        pieces = [(MetadataIndex(name, piece.offsets), math.prod(piece.sizes) * itemsize) for piece in md.chunks]
    for index, needed in pieces:
        info = infos.get(index)
        if info is None:
            at = "" if index.offset is None else f" at {list(index.offset)}"
            raise FileFormatError(f"does not say where {short(name)}{at} lies")
        if info.length < needed and not info.transform_descriptors:
            raise FileFormatError(f"has {info.length} bytes for {short(name)}, whose elements have {needed}")


def _meta(value: Any) -> StorageMeta:
    state = _state(value, "StorageMeta")
    modules = state.get("modules", [])
    save_id, load_id = state.get("save_id"), state.get("load_id")
    where = state.get("checkpoint_id")
    fits = where is None or isinstance(where, (str, pathlib.PurePath))
    fits = fits and all(text is None or type(text) is str for text in (save_id, load_id))
    if not fits or type(modules) is not list or not all(type(name) is str for name in modules):
        raise FileFormatError("has a StorageMeta that holds something else than names")
    return StorageMeta(where, save_id, load_id, modules)


def _planner_data(value: Any, entries: int) -> Any:
    """Paths as the default planner has them are looked at, since lists are made as long as they say; what else it is, is the planner's."""
    if type(value) is dict:
        for path in value.values():
            if type(path) is tuple and not (path and all(type(key) is str or (type(key) is int and 0 <= key) for key in path)):
                raise FileFormatError(f"has the path {short(path)}; expected names and numbers")
            if type(path) is tuple and any(type(key) is int and key >= entries + _MOST_GAPS for key in path):
                raise FileFormatError(f"has the path {short(path)}, whose list would have more items than there are entries")
    return value
