"""`torch.serialization`: files are written as PyTorch writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any

from flambeau import serialization as _serialization
from flambeau._C import device

__all__ = ["load", "save"]

DEFAULT_PROTOCOL = 2  # of the pickles that files contain
# What annotations of programs name.
FILE_LIKE = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Writes a file that `torch.load(weights_only=True)` reads, here and in PyTorch; the other arguments say how PyTorch pickles."""
    _serialization.save(obj, f, format="pt")


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None, **pickle_load_args: Any
) -> Any:
    """Reads any file that `flambeau.load` reads, among them PyTorch's.

    Nothing is unpickled: `pickle_module` and its arguments have no say. With `weights_only=False` a file may name classes of modules that the program
    has imported; any other class is refused until `serialization.add_safe_globals` allows it.
    """
    return _serialization.load(f, map_location, weights_only=weights_only, mmap=mmap)
