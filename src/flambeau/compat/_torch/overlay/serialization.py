"""`torch.serialization`: files are written as PyTorch writes them."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import serialization as _serialization
from flambeau.serialization._options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
)

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "default_restore_location", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "location_tag", "normalize_storage_type", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options", "validate_cuda_device",
]  # fmt: skip


class SourceChangeWarning(Warning):
    """What PyTorch warns with where a module's source is another than in its file; files of modules have no source here."""


def location_tag(storage: Any) -> str:
    """The name of the device that a storage lies on, as files say it."""
    return str(storage.device.type)


def validate_cuda_device(location: Any) -> int:
    """The number of a GPU, of which there is none."""
    raise fl.DeviceError(f"load: a storage was saved on {location}, which is not here; pass map_location='cpu' to load it into memory")


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage of a file on the device that it was saved on: what functions given as `map_location` call with another one."""
    if location == "cpu":
        return storage
    if location == "meta":
        return storage.to("meta") if isinstance(storage, fl.Tensor) else fl.UntypedStorage(storage.nbytes(), device="meta")
    if location.startswith("cuda"):
        validate_cuda_device(location)
    raise RuntimeError(f"default_restore_location: a storage was saved on {location!r}, which is not here; expected 'cpu' or 'meta'")


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages of that name: torch.FloatStorage for any `FloatStorage`."""
    return getattr(fl, storage_type.__name__)


def _get_layout(name: str) -> Any:
    """The layout of that name, with `torch.` in front of it."""
    return getattr(fl, name.rpartition(".")[2])


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """`flambeau.save` with `format="pt"`: a file that PyTorch reads."""
    _serialization.save(obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record, format="pt")
