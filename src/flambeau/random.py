"""Random state: seeds, and a scope that leaves it untouched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau._C import default_generator
from flambeau._random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator",
]  # fmt: skip


def thread_safe_generator() -> Any:
    """The generator of the thread that works for a DataLoader, to pass on as `generator=`; None, the default one, elsewhere.

    A DataLoader's workers are processes, which have a default generator each: it is always None.
    """
    return None


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices", device_type: str | None = None
) -> Iterator[None]:
    """Restores the default generator at the end of the scope, unless `enabled` is False or `device_type` is "meta".

    It is the only generator there is: `devices` and the names for PyTorch's warning about them are ignored.
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled and device_type != "meta":
            set_rng_state(state)
