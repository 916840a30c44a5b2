"""What this library offers, by `__array_namespace_info__()`."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau.array_api._dtypes import KINDS, isdtype

_MOST_AXES = 64  # of a tensor of the core


class ArrayNamespaceInfo:
    """Capabilities, devices and types.

    Example:
        >>> import flambeau as fl
        >>> fl.array_api.__array_namespace_info__().capabilities()["boolean indexing"]
        True
    """

    def capabilities(self) -> dict[str, Any]:
        """What of the standard's optional parts there is."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _MOST_AXES}

    def default_device(self) -> Any:
        """Where tensors are made by default."""
        return _C.device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types that tensors have where none is given."""
        real = _C.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": _C.int64, "indexing": _C.int64}

    def devices(self) -> list[Any]:
        """All devices that hold data."""
        return [_C.device("cpu")]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's types that there are, of one kind or of all: name -> type."""
        every = KINDS["bool"] + KINDS["numeric"]
        return {t.name: t for t in every if kind is None or isdtype(t, kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Capabilities, devices and types of this library."""
    return ArrayNamespaceInfo()
