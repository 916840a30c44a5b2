"""`torch.nn.modules.utils`: one number, or one for each axis."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from flambeau._no_tensor import wants_tensors

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Any:
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Any, n: int) -> tuple[Any, ...]:
    """The items from the last to the first, each n times: the order in which `pad` wants them."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: list[int], defaults: list[int]) -> list[int]:
    """`out_size` with the sizes that are None taken from the end of `defaults`."""
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes `prefix` off the keys that begin with it, in place; the order stays."""
    for key in list(state_dict):
        state_dict[key[len(prefix) :] if key.startswith(prefix) else key] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata):
            if key and key.startswith(prefix.rstrip(".")):
                metadata[key[len(prefix) :]] = metadata.pop(key)


@wants_tensors
def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """What a layer that takes `**kwargs` makes its parameters with: device, dtype and memory_format, given as such or in "factory_kwargs".

    Raises:
        TypeError: there is another, or one is given twice.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.factory_kwargs({"dtype": fl.float64})
        {'dtype': flambeau.float64}
    """
    direct = dict(kwargs or {})
    found = dict(direct.pop("factory_kwargs", {}))
    if others := direct.keys() - {"device", "dtype", "memory_format"}:
        raise TypeError(f"factory_kwargs: got {', '.join(sorted(others))}; expected device, dtype, memory_format or factory_kwargs")
    if twice := direct.keys() & found.keys():
        raise TypeError(f"factory_kwargs: {', '.join(sorted(twice))} is given twice, in factory_kwargs, too")
    return {**found, **direct}
