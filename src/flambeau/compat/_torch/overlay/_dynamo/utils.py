"""`torch._dynamo.utils`."""

from __future__ import annotations

import collections
import warnings
from typing import Any

_warned: set[str] = set()
# What that compiler did, by kind: nothing, as it is not here.
counters: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def is_compile_supported(device_type: Any) -> bool:
    """False: code is not generated for any device."""
    return False


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """A warning, the first time that it is given with this text."""
    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)
