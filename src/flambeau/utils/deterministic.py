"""`torch.utils.deterministic`: the switch `fill_uninitialized_memory`, which is off and stays off.

In PyTorch `empty` and its kin fill their memory with NaN while deterministic algorithms are asked for, unless this switch is off. Here
they leave memory as it is in any case, and all algorithms are deterministic.

Example:
    >>> import flambeau as fl
    >>> fl.utils.deterministic.fill_uninitialized_memory = False
    >>> fl.utils.deterministic.fill_uninitialized_memory
    False
"""

from __future__ import annotations

import sys
import types
from typing import Any

from flambeau._errors import RefusedTypeError

__all__: list[str] = []


class _Module(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` fills its memory: no."""
        return False

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: Any) -> None:
        if not isinstance(mode, bool):
            raise RefusedTypeError(f"fill_uninitialized_memory: {mode!r}; expected True or False")
        if mode:
            raise NotImplementedError(
                "fill_uninitialized_memory = True: empty, empty_like and resize_ leave memory as it is; full(shape, nan) and "
                "full_like(x, nan) fill it"
            )


sys.modules[__name__].__class__ = _Module
