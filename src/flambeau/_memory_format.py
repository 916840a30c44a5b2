"""The names of memory formats and layouts. Dense results are row-major whichever format is asked for."""

from __future__ import annotations

from typing import Any


class memory_format:
    """How the axes of a tensor lie in memory; one of the four constants of the package."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"flambeau.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = legacy_contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def check_memory_format(op: str, value: Any) -> None:
    """Refuses what is neither a memory format nor None."""
    if value is not None and not isinstance(value, memory_format):
        raise TypeError(
            f"{op}: memory_format = {value!r}; expected flambeau.contiguous_format, preserve_format, "
            "channels_last or channels_last_3d"
        )


class layout:
    """How a tensor holds its elements: `strided`, `sparse_coo`, or by compressed rows or columns of elements or blocks."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"flambeau.{self._name}"

    def __reduce__(self) -> str:
        return self._name


LAYOUTS = {name: layout(name) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")}
strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = LAYOUTS.values()
