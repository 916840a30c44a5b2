"""`torch.utils.serialization.config`: how files are written and read, as attributes of `save` and `load`.

Most of them are kept for who asks: files that are given by their path are mapped in any case, and there is no memory to pin.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from flambeau.serialization import _options

__all__ = ["load", "patch", "save"]


class _Settings:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise AttributeError(f"torch.utils.serialization.config has no {name!r}; it has {', '.join(self.__dict__)}")
        if name == "endianness":
            _options.set_default_load_endianness(value)
        elif name == "mmap_flags":
            _options.set_default_mmap_options(value)
        elif name == "compute_crc32":
            _options.set_crc32_options(value)
        super().__setattr__(name, value)


load = _Settings(mmap=False, endianness=None, mmap_flags=_options.get_default_mmap_options(), calculate_storage_offsets=False)
save = _Settings(compute_crc32=True, use_pinned_memory_for_d2h=False, storage_alignment=64)


@contextlib.contextmanager
def patch(changes: str | Mapping[str, Any] | None = None, value: Any = None, **more: Any) -> Iterator[None]:
    """Other settings for as long as it lasts: `patch("load.mmap", True)`, or a dict of several."""
    wanted = {**({changes: value} if isinstance(changes, str) else changes or {}), **more}
    before = []
    try:
        for name, setting in wanted.items():
            group, _, key = name.partition(".")
            settings = getattr(sys.modules[__name__], group)
            before.append((settings, key, getattr(settings, key)))
            setattr(settings, key, setting)
        yield
    finally:
        for settings, key, old in reversed(before):
            setattr(settings, key, old)
