"""Several modules, each with inputs of its own, and copies of one. No module here is named as a function: importing it would hide that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import DeviceError, Tensor
from flambeau.nn.module import Module

__all__ = ["get_a_var", "parallel_apply", "replicate"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in lists, tuples and dicts, or None."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, dict):
        obj = obj.items()
    elif not isinstance(obj, (list, tuple, type({}.items()))):
        return None
    return next((found for item in obj if (found := get_a_var(item)) is not None), None)


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None, devices: Any = None
) -> list[Any]:
    """Calls each module with its inputs, one after the other: all are on the CPU, whose processors each call uses already.

    Args:
        inputs: for each module a tuple or list of its arguments, or its only one.
        kwargs_tup: for each module its arguments by name.

    Raises:
        ValueError: not as many inputs, arguments by name or devices as modules.
        DeviceError: a device is none of the CPU's.
    """
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise ValueError(f"parallel_apply: {len(given)} {name} for {len(modules)} modules; expected as many")
    for device in devices or ():
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise DeviceError(f"parallel_apply: device {device!r}, but this build of flambeau computes on the CPU; leave devices out")
    named = kwargs_tup or [{}] * len(modules)
    return [m(*(x if isinstance(x, (list, tuple)) else (x,)), **kwargs) for m, x, kwargs in zip(modules, inputs, named, strict=True)]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """One copy for each device, of which there can be none here.

    Raises:
        DeviceError: a device is named.
    """
    _refuse_devices(devices)
    return []


def _broadcast_coalesced_reshape(tensors: Sequence[Tensor], devices: Any, detach: bool = False) -> list[list[Tensor]]:
    """Copies of the tensors for each device: what `replicate` of packages is made of, which ask for this name.

    Raises:
        DeviceError: a device is named.
    """
    _refuse_devices(devices)
    return []


def _refuse_devices(devices: Any) -> None:
    if devices:
        raise DeviceError(f"replicate: devices = {devices!r}, but this build of flambeau has no CUDA backend; call the module itself")
