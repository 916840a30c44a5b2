"""`torch.serialization`: files are written as PyTorch writes them."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import serialization as _serialization

__all__ = ["normalize_storage_type", "save"]


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
