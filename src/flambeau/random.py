"""Random state: seeds, and a scope that leaves it untouched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau._random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Restores the default generator at the end of the scope."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
