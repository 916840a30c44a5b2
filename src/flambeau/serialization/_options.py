"""What `torch.serialization` has functions for: the byte order of files that do not say theirs, how files are mapped, and checksums."""

from __future__ import annotations

import enum
import mmap
import sys

from flambeau._errors import NotThereError

_byte_order: LoadEndianness | None = None
_checksums = True


class LoadEndianness(enum.Enum):
    """A byte order."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """How bytes are read of an archive without a record of their order; None is as LITTLE."""
    return _byte_order


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """How bytes are read from now on of an archive without a record of their order.

    Raises:
        TypeError: neither a LoadEndianness nor None.
    """
    global _byte_order
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: got {endianness!r}; expected a LoadEndianness or None")
    _byte_order = endianness


def default_byte_order() -> str:
    """ "little" or "big"."""
    return sys.byteorder if _byte_order is LoadEndianness.NATIVE else "big" if _byte_order is LoadEndianness.BIG else "little"


def get_default_mmap_options() -> int:
    """MAP_PRIVATE: what is written to a tensor of a mapped file does not come into the file."""
    return mmap.MAP_PRIVATE


class set_default_mmap_options:
    """Takes MAP_PRIVATE, which is how files are mapped; also as a region.

    Raises:
        NotThereError: MAP_SHARED, by which tensors would be written to their file.
        ValueError: anything else.
    """

    def __init__(self, flags: int) -> None:
        if flags == mmap.MAP_SHARED:
            what = "files are mapped so that what is written to a tensor does not come into its file"
            raise NotThereError(f"set_default_mmap_options: flags = MAP_SHARED; expected MAP_PRIVATE: {what}")
        if flags != mmap.MAP_PRIVATE:
            raise ValueError(f"set_default_mmap_options: flags = {flags!r}; expected mmap.MAP_PRIVATE")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def get_crc32_options() -> bool:
    """What `set_crc32_options` was told."""
    return _checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Takes both: files have checksums in any case, as they cost next to nothing here."""
    global _checksums
    _checksums = bool(compute_crc32)
