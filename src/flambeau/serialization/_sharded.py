"""Models in several files with an index, and single tensors of a file: `safe_open`.

    {"metadata": {...}, "weight_map": {"layer.weight": "model-00001-of-00002.safetensors", ...}}

The files lie beside the index, and only there: a name of a file that is more than a name is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from flambeau._C import Tensor
from flambeau.serialization._container import parse_json, read_header, reader
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._files import path_of
from flambeau.serialization._gguf import GGUF
from flambeau.serialization._place import mover
from flambeau.serialization._recognize import format_of
from flambeau.serialization._source import Source

MAX_INDEX = 100_000_000


def _is_plain(name: str) -> bool:
    """Whether a name of a file is that alone, on any system."""
    try:
        return 0 < len(name.encode("utf-8")) <= 255 and name not in (".", "..") and not any(c in name for c in "\0/\\")
    except UnicodeEncodeError:
        return False


def read_index(source: Source) -> tuple[dict[str, Any], dict[str, str]]:
    """(metadata, file by tensor name), checked."""
    if source.size > MAX_INDEX:
        raise FileFormatError(f"is an index of {source.size} bytes; at most {MAX_INDEX} are allowed")
    try:
        text = source.read(0, source.size, "the index").decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"is no index: not UTF-8: {error}") from None
    index = parse_json(text, "the index")
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise FileFormatError('is no index of a model: it has no "weight_map" with the file of each tensor')
    metadata = index.get("metadata", {})
    if not isinstance(metadata, dict):
        raise FileFormatError(f"is an index whose metadata is {short(metadata)}; expected an object")
    for name in dict.fromkeys(files.values()):
        if not _is_plain(name):
            raise FileFormatError(f"is an index that names the file {short(name)}; expected a name in its own folder")
    return metadata, files


class safe_open:
    """One file of tensors, or an index of several, whose tensors are made when they are asked for.

    Reads safetensors, `model.safetensors.index.json` and GGUF. Shards are opened when a tensor of theirs is wanted.

    Args:
        filename: the path.
        framework: "pt" or "flambeau"; what comes is flambeau's tensors in any case.
        device: where the tensors go.
        mmap: False reads a tensor's bytes into memory of its own instead of mapping the file.

    Raises:
        FileNotFoundError: there is no such file, or a shard of the index is missing.
        FileFormatError: (a ValueError) the file is truncated, damaged or hostile.

    >>> import flambeau as fl, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> fl.save({"a": fl.ones(2, 3), "b": fl.zeros(1)}, path)
    >>> with fl.serialization.safe_open(path, "pt") as f:
    ...     f.keys(), f.get_tensor("a").shape, f.get_slice("a")[0, :2].tolist()
    (['a', 'b'], flambeau.Size([2, 3]), [1.0, 1.0])
    """

    def __init__(self, filename: Any, framework: str = "flambeau", device: Any = "cpu", *, mmap: bool = True) -> None:
        if framework not in ("pt", "torch", "pytorch", "flambeau"):
            raise ValueError(f"safe_open: framework = {framework!r}; expected 'pt' or 'flambeau'")
        self._path = path_of("safe_open", filename)
        self._mmap = mmap
        self._move = mover(device)
        self._open: list[Source] = []
        self._shards: dict[str, Callable[[str], Tensor]] = {}
        self._tensors: dict[str, Callable[[str], Tensor]] = {}
        self._metadata: dict[str, Any] = {}
        self._closed = False
        self._naming(self._path, self._read)

    def _naming(self, path: str, do: Callable[[], Any]) -> Any:
        if self._closed:
            raise ValueError(f"safe_open: {self._path} is closed")
        try:
            return do()
        except FileFormatError as error:
            text = str(error)
            raise FileFormatError(text if text.startswith("load: ") else f"load: {path} {text}") from None

    def _source(self, path: str, regular: bool = False) -> Source:
        source = Source.open(path, self._mmap, regular)
        self._open.append(source)
        return source

    def _read(self) -> None:
        source = self._source(self._path)
        kind = "index" if self._path.endswith(".json") else format_of(source)
        if kind == "index":
            self._metadata, files = read_index(source)
            self._tensors = {name: self._sharded(file) for name, file in files.items()}
        elif kind == "gguf":
            gguf = GGUF(source)
            self._metadata = gguf.metadata
            self._tensors = dict.fromkeys(gguf.tensors, lambda name: self._move(gguf.tensor(name), "cpu"))
        elif kind == "safetensors":
            entries, self._metadata, tensor = self._container(source)
            self._tensors = dict.fromkeys(entries, tensor)
        else:
            raise FileFormatError(f"is a {kind} file, whose tensors are not opened one by one (use flambeau.load)")

    def _container(self, source: Source) -> tuple[dict[str, Any], dict[str, Any], Callable[[str], Tensor]]:
        entries, metadata, start = read_header(source)
        return entries, metadata, reader(source, entries, start, lambda value: self._move(value, "cpu"), keep=False)

    def _sharded(self, file: str) -> Callable[[str], Tensor]:
        path = os.path.join(os.path.dirname(self._path), file)

        def tensor(name: str) -> Tensor:
            if file not in self._shards:
                source = self._source(path, regular=True)
                if format_of(source) != "safetensors":
                    raise FileFormatError(f"is a {format_of(source)} file; expected safetensors")
                entries, _, made = self._container(source)

                def known(name: str) -> Tensor:
                    if name not in entries:
                        raise FileFormatError(f"has no tensor {short(name)}, which the index {self._path} says it has")
                    return made(name)

                self._shards[file] = known
            return self._shards[file](name)

        return lambda name: self._naming(path, lambda: tensor(name))  # type: ignore[no-any-return]

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends reading; tensors that were made stay."""
        for source in self._open:
            source.close()
        self._open.clear()
        self._closed = True

    def keys(self) -> list[str]:
        """The tensors' names, in the order of the file."""
        return list(self._tensors)

    def metadata(self) -> dict[str, Any]:
        """What the file says about itself: text by name of a safetensors file, values of several types of GGUF."""
        return dict(self._metadata)

    def get_tensor(self, name: str) -> Tensor:
        """One tensor.

        Raises:
            KeyError: the file has none of this name.
        """
        if name not in self._tensors:
            raise KeyError(f"safe_open: {self._path} has no tensor {name!r}")
        return self._naming(self._path, lambda: self._tensors[name](name))  # type: ignore[no-any-return]

    def get_slice(self, name: str) -> Tensor:
        """A tensor to be indexed: of a mapped file only the bytes that are looked at are read."""
        return self.get_tensor(name)
