"""`torch._dynamo.utils`."""

from __future__ import annotations

import collections
import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from flambeau.compat._torch.overlay._dynamo import config

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


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Meanwhile the settings say that a function may be compiled anew any number of times."""
    with config.patch(recompile_limit=sys.maxsize, accumulated_recompile_limit=sys.maxsize):
        yield
