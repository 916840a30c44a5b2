"""What the modules of backends keep without a meaning here: regions with other switches, and `fp32_precision`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

PRECISIONS = ("none", "ieee", "tf32", "bf16")


class Operation:
    """A kind of operation of a backend. Its `fp32_precision` is kept by itself; float32 is computed as float32 whatever it says.

    Raises:
        RuntimeError: an assignment of another text than "none", "ieee", "tf32" and "bf16".
    """

    def __init__(self, fp32_precision: str = "none") -> None:
        self._precision = fp32_precision

    @property
    def fp32_precision(self) -> str:
        """How precisely a GPU would compute with float32."""
        return self._precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in PRECISIONS:
            raise RuntimeError(f"fp32_precision = {value!r}; expected one of {', '.join(PRECISIONS)}")
        self._precision = value


@contextlib.contextmanager
def region(table: dict[str, Any], values: dict[str, Any]) -> Iterator[None]:
    """A module's switches have these values while it lasts."""
    before = {name: table[name] for name in values}
    table.update(values)
    try:
        yield
    finally:
        table.update(before)
