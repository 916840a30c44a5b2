"""PyTorch's files: the zip archives of `torch.save` and `torch.jit.save`, and the streams that it wrote before version 1.6.

    archive                                  stream
    NAME/data.pkl     the objects            pickle  a magic number
    NAME/byteorder    little, or big         pickle  the protocol, 1001
    NAME/data/KEY     a storage's bytes      pickle  the machine: its byte order
    NAME/version                             pickle  the objects
                                             pickle  the keys of the storages, in the order that follows
                                             for each key: 8 bytes with its number of elements, and these

The objects are a pickle that names storages by persistent ids. It is run by `_pickle.Machine` with the names of `_torch_names`, and
nothing else: no code of the file runs, and a tensor is made only of bytes that are there. Tensors over one storage share its memory, as
they did.
Where the bytes of a stream's storages lie follows from its objects, so these are run twice: first to see what storages they name, and
then to be made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, ops, uint8
from flambeau.serialization._errors import FileFormatError, RefusedName, short
from flambeau.serialization._old_text import OldText
from flambeau.serialization._options import default_byte_order
from flambeau.serialization._pickle import Global, Machine, names_in
from flambeau.serialization._skip import is_skipped
from flambeau.serialization._source import Source, flat_of
from flambeau.serialization._torch_context import Storage
from flambeau.serialization._torch_names import TorchNames
from flambeau.serialization._torch_values import Script
from flambeau.serialization._zip import Archive

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
Move = Callable[[Tensor, str], Tensor]  # (elements, location in the file) -> elements


def is_stream(head: bytes) -> bool:
    """Whether a file begins as a pickle does. A safetensors file that does has a header of less than 4 GiB, which begins with {."""
    return len(head) > 2 and head[0] == 0x80 and head[1] <= 5 and not (head[4:8] == bytes(4) and head[8:9] == b"{")


class _Keyed(TorchNames):
    """Names whose storages are kept by key; a subclass says how one is made."""

    def __init__(self, size: int, move: Move, text: OldText, in_script: bool = False) -> None:
        super().__init__(size, in_script, text)
        self._move = move
        self._flat: dict[tuple[str, Any], Tensor] = {}

    def elements(self, key: str, dtype: Any, storage: Storage) -> Tensor:
        raise NotImplementedError

    def flat(self, storage: Storage, dtype: Any) -> Tensor:
        made = self._flat.get((storage.key, dtype))
        if made is None:
            made = self._flat[storage.key, dtype] = self.moved(self.elements(storage.key, dtype, storage), storage)
        if storage.view is None:
            return made
        first, count = storage.view
        return made[first : first + count]

    def moved(self, elements: Tensor, storage: Storage) -> Tensor:
        result = self._move(elements, storage.location)
        if result is elements:
            return result
        if result.dtype != elements.dtype or result.shape != elements.shape:
            raise TypeError(
                f"load: map_location returned a tensor of {result.dtype} and shape {list(result.shape)} for one of {elements.dtype} and "
                f"{list(elements.shape)}; expected another place for the same elements"
            )
        return result


# ------------------------------------------------------------------------------------------- archives


class _InArchive(_Keyed):
    def __init__(self, archive: Archive, folder: str, prefix: str, move: Move, text: OldText, in_script: bool) -> None:
        super().__init__(archive.source.size, move, text, in_script)
        self._archive, self._folder, self._prefix = archive, folder, prefix
        order = self._text("byteorder", default_byte_order())
        if order not in ("little", "big"):
            raise FileFormatError(f"says that its byte order is {short(order)}; expected little or big")
        self._swap = order == "big"
        self._bytes: dict[str, Tensor] = {}
        self._types: dict[str, Any] = {}

    def _text(self, name: str, default: str) -> str:
        name = f"{self._folder}/{name}"
        return self._archive.read(name).decode("latin1").strip() if name in self._archive.entries else default

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        _, kind, key, location, count = pid[:5]
        entry = self._archive.entries.get(f"{self._prefix}{key}")
        if entry is None:
            raise FileFormatError(f"it names the storage {short(key)}, but the archive has no entry {short(self._prefix + key)}")
        n = count * (kind.dtype.itemsize if kind.dtype is not None else 1)
        if len(pid) != 5 or n != entry.size:
            raise FileFormatError(f"the storage {key!r} has {short(count)} elements of {kind.name}, but its entry has {entry.size} bytes")
        return Storage(key, kind.dtype, count, location)

    def elements(self, key: str, dtype: Any, storage: Storage) -> Tensor:
        name = self._prefix + key
        raw = self._bytes.get(key)
        if raw is None:
            size = self._archive.entries[name].size
            raw = self._bytes[key] = ops.zeros(size, dtype=uint8) if is_skipped() else self._archive.tensor(name, 16)
        whole = raw.numel() - raw.numel() % dtype.itemsize
        if self._swap and self._types.setdefault(key, dtype) != dtype:  # swapped copies would not share memory
            raise FileFormatError(f"{name!r} is big-endian and shown as {self._types[key]} and {dtype}; expected one type")
        return flat_of(raw[:whole], dtype, self._swap, repr(name))


def find_objects(archive: Archive) -> str | None:
    """The folder of an archive whose objects are in FOLDER/data.pkl, or None."""
    found = [name for name in archive.entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(found) > 1:
        raise FileFormatError(f"holds {len(found)} archives of tensors: {', '.join(found[:5])}; expected one")
    return found[0].removesuffix("/data.pkl") if found else None


def read_archive(archive: Archive, folder: str, move: Move, text: OldText) -> Any:
    if f"{folder}/constants.pkl" in archive.entries:
        return _read_script(archive, folder, move, text)
    name = f"{folder}/data.pkl"
    names = _InArchive(archive, folder, f"{folder}/data/", move, text, in_script=False)
    return _run_whole(archive.read(name), name, names)


def _run_whole(raw: bytes, name: str, names: TorchNames) -> Any:
    machine = Machine(raw, 0, name, names)
    value = machine.run()
    if machine.at != len(raw):
        raise FileFormatError(f"is refused at {name}, byte {machine.at}: {len(raw) - machine.at} bytes follow the end of the pickle")
    return value


def _read_script(archive: Archive, folder: str, move: Move, text: OldText) -> Any:
    """The tensors of a TorchScript module by the names that they have in its state dict. Its code is not looked at."""
    name = f"{folder}/data.pkl"
    prefix = f"{folder}/data/"
    if not any(entry.startswith(prefix) for entry in archive.entries) and f"{folder}/constants/0" in archive.entries:
        prefix = f"{folder}/constants/"
    root = _run_whole(archive.read(name), name, _InArchive(archive, folder, prefix, move, text, in_script=True))
    if not isinstance(root, Script):
        return root
    state: OrderedDict[str, Tensor] = OrderedDict()
    seen = {id(root)}
    waiting = [("", root)]
    while waiting:
        path, module = waiting.pop()
        below = []
        for key, value in module.attributes.items():
            if isinstance(value, Tensor):
                state[path + key] = value.detach() if value.requires_grad else value
            elif isinstance(value, Script) and id(value) not in seen:
                seen.add(id(value))
                below.append((f"{path}{key}.", value))
        waiting += reversed(below)
    return state


# ------------------------------------------------------------------------------------------- streams


class _Blank:
    """What a function of a pickle would make, where only its storages are wanted."""


class _Survey(TorchNames):
    """Runs nothing, and notes the storages that a pickle names: their elements come behind it, in an order that depends on them."""

    def __init__(self, size: int, behind: int, text: OldText | None = None) -> None:
        super().__init__(size, text=text)
        self._left = behind  # bytes that storages may have together
        self.found: dict[str, Storage] = {}

    def find(self, name: str) -> Any:
        value = super().find(name)
        if isinstance(value, Global) and value.call is not None:
            return Global(name, lambda args: _Blank(), new=value.new, kind=value.kind)
        return value

    def is_allowed(self, cls: Any) -> bool:
        return cls is _Blank or super().is_allowed(cls)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        return _Blank()

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _Blank()

    def storage_object(self, storage: Storage) -> Any:
        return _Blank()

    def build(self, target: Any, state: Any) -> None:
        pass

    def fill(self, target: Any, items: list[Any], pairs: bool) -> None:
        pass

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        storage = _storage_in_stream(pid)
        known = self.found.setdefault(storage.key, storage)
        if known is storage:
            self._left -= storage.count * storage.dtype.itemsize + 8
            if self._left < 0:
                raise FileFormatError(f"{storage.what} has {short(storage.count)} elements, more than the file has bytes (truncated?)")
        elif (known.dtype, known.count, known.location) != (storage.dtype, storage.count, storage.location):
            raise FileFormatError(f"{storage.what} is named with two types, sizes or locations")
        return storage


def _storage_in_stream(pid: tuple[Any, ...]) -> Storage:
    _, kind, key, location, count = pid[:5]
    if kind.dtype is None:
        raise FileFormatError(f"the storage {short(key)} is untyped, which streams have not")
    view = pid[5] if len(pid) == 6 else None
    if view is None:
        return Storage(key, kind.dtype, count, location)
    fits = isinstance(view, tuple) and len(view) == 3 and type(view[0]) is str and all(type(n) is int and n >= 0 for n in view[1:])
    if not fits or view[1] + view[2] > count:
        raise FileFormatError(f"the storage {short(key)} of {short(count)} elements has a part {short(view)}")
    return Storage(key, kind.dtype, count, location, (view[1], view[2]))


class _InStream(_Keyed):
    def __init__(self, source: Source, places: dict[str, int], swap: bool, move: Move, text: OldText) -> None:
        super().__init__(source.size, move, text)
        self._source, self._places, self._swap = source, places, swap

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        return _storage_in_stream(pid)

    def elements(self, key: str, dtype: Any, storage: Storage) -> Tensor:
        if dtype != storage.dtype:
            raise FileFormatError(f"{storage.what} of {storage.dtype} is shown as {dtype}")
        if key not in self._places:
            raise FileFormatError(f"{storage.what} was not named before: the file changes while it is read")
        raw = self._source.tensor(self._places[key], storage.count * dtype.itemsize, storage.what, 16)
        return flat_of(raw, dtype, self._swap, storage.what)


def read_stream(source: Source, move: Move, text: OldText) -> Any:
    data = source.whole()
    at, nothing = 0, _Survey(0, 0)

    def next_pickle(what: str, names: TorchNames) -> Any:
        nonlocal at
        machine = Machine(data, at, what, names)
        value = machine.run()
        at = machine.at
        return value

    if next_pickle("its first pickle", nothing) != MAGIC:
        raise FileFormatError("is a pickle, but not one of PyTorch's; other pickles are never loaded (save it as .npz or safetensors)")
    if (protocol := next_pickle("its protocol", nothing)) != PROTOCOL:
        raise FileFormatError(f"has the protocol {short(protocol)}; expected {PROTOCOL}")
    machine = next_pickle("its description of a machine", nothing)
    little = machine.get("little_endian") if type(machine) is dict else None
    if type(little) is not bool:
        raise FileFormatError(f"does not say its byte order: {short(machine)}")
    begin, survey = at, _Survey(source.size, source.size - at, text)
    next_pickle("its objects", survey)
    keys = next_pickle("its list of storages", nothing)
    if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(survey.found):
        raise FileFormatError(f"lists {short(keys)} as its storages, but its objects name {short(sorted(survey.found))}")
    places = {}
    for key in keys:
        storage = survey.found[key]
        count = int.from_bytes(source.read(at, 8, f"the size of {storage.what}"), "little" if little else "big", signed=True)
        if count != storage.count:
            raise FileFormatError(f"announces {count} elements of {storage.what} at byte {at}; its objects say {storage.count}")
        places[key] = at + 8
        at += 8 + count * storage.dtype.itemsize
    if at > source.size or (at < source.size and not source.goes_on):
        raise FileFormatError(f"has {source.size} bytes, but its storages end at {at} (truncated?)")
    source.end = at
    at = begin
    return next_pickle("its objects", _InStream(source, places, not little, move, text))


class _Wanted(_Survey):
    """Runs nothing, and notes the names that are refused."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.size, source.size)
        self.refused: dict[str, None] = {}

    def find(self, name: str) -> Any:
        try:
            return super().find(name)
        except RefusedName:
            self.refused[name] = None
            return type("Refused", (_Blank,), {})

    def _noted(self, what: Any) -> Any:
        if self._allowed.holds(what):  # a class or function that the file may name, but not call
            self.refused[f"{what.__module__}.{what.__qualname__}"] = None
        return _Blank()

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        if self._allowed.has(function) and not self._allowed.may_call(function):
            self.refused[f"{function.__module__}.{function.__qualname__}"] = None
        return self._noted(function)

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._noted(cls)

    def is_allowed(self, cls: Any) -> bool:
        return issubclass(cls, _Blank) or super().is_allowed(cls)

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        return Storage(pid[2], uint8, 0, pid[3])


def refused_names(source: Source, archive: Archive | None) -> list[str]:
    """Names of a file's objects that loading refuses where they stand; what else is wrong with the file ends the list."""
    wanted = _Wanted(source)
    try:
        if archive is not None:
            folder = find_objects(archive)
            Machine(archive.read(f"{folder}/data.pkl"), 0, "", wanted).run()
        else:
            data, at = source.whole(), 0
            for _ in range(4):  # the objects are the fourth pickle
                machine = Machine(data, at, "", wanted)
                machine.run()
                at = machine.at
    except FileFormatError:
        pass
    return list(wanted.refused)


def unknown_names(source: Source, archive: Archive | None) -> list[str]:
    """Names of a file that loading refuses; nothing of it is run."""

    if archive is not None:
        folder = find_objects(archive)
        if folder is None:
            return []
        found, _ = names_in(archive.read(f"{folder}/data.pkl"), 0, f"{folder}/data.pkl")
    else:
        raw, at, found = source.read(0, source.size, "the file"), 0, []
        for _ in range(4):
            found, at = names_in(raw, at, "the file")
    names = TorchNames(0, in_script=archive is not None and any(name.endswith("/constants.pkl") for name in archive.entries))
    refused = []
    for name in found:
        try:
            names.find(name)
        except FileFormatError:
            refused.append(name)
    return refused
