"""How a module's parameters change when it is converted (`to`, `float`, `cuda`, ...) and loaded: two switches of the process.

Both are off at first: parameters stay the objects that they are, and get other data.

>>> import flambeau as fl
>>> layer = fl.nn.Linear(1, 1)
>>> weight = layer.weight
>>> fl.__future__.set_overwrite_module_params_on_conversion(True)
>>> layer.double().weight is weight
False
>>> fl.__future__.set_overwrite_module_params_on_conversion(False)
"""

from __future__ import annotations

import types

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip

switches = types.SimpleNamespace(overwrite=False, swap=False)


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether a conversion gives a module new parameters; who holds the old ones keeps them as they were."""
    switches.overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` said last."""
    return switches.overwrite  # type: ignore[no-any-return]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether a conversion swaps parameters with new ones (`utils.swap_tensors`): they stay the objects that they are, and may become of
    another class. `load_state_dict` then swaps them with what `param.module_load(value)` returns. Comes before the other switch.
    """
    switches.swap = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` said last."""
    return switches.swap  # type: ignore[no-any-return]
