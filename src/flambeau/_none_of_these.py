"""Devices of other makers, by name: this build has none of them."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau import _C


def absent(module: str, *refused: str, **more: Any) -> dict[str, Any]:
    """The functions of `torch.<module>` on a machine without such a device: those of all, further ones that are refused, and answers."""

    def none(name: str) -> NoReturn:
        raise _C.DeviceError(f"{module}.{name}: this build of flambeau computes on the CPU")

    def refusing(name: str) -> Any:
        def refused(*args: Any, **kwargs: Any) -> NoReturn:
            none(name)

        refused.__name__ = refused.__qualname__ = name
        refused.__doc__ = "Refused: there is no such device."
        return refused

    names: dict[str, Any] = {
        "is_available": lambda: False,
        "is_initialized": lambda: False,
        "is_bf16_supported": lambda *args: False,
        "device_count": lambda: 0,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "empty_cache": lambda: None,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        **more,
    }
    for name in (
        "synchronize",
        "current_device",
        "set_device",
        "get_rng_state",
        "set_rng_state",
        "get_device_name",
        "get_device_properties",
        "mem_get_info",
        *refused,
    ):
        names[name] = refusing(name)
    return names
