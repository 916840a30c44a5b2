"""Where the tensors of a file go: what `map_location` means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.storage import TypedStorage, UntypedStorage


def mover(map_location: Any) -> Callable[[Tensor, str], Tensor]:
    """A function of (tensor, its location in the file)."""

    def here(value: Tensor, location: str) -> Tensor:
        if location not in ("cpu", "meta"):
            raise _C.DeviceError(
                f"load: a tensor was saved on {location[:40]!r}, which is not here; pass map_location='cpu' to load it into memory"
            )
        return value

    if map_location is None:
        return here
    if isinstance(map_location, dict):
        places = {str(key): place for key, place in map_location.items()}
        return lambda value, location: value.to(places[location]) if location in places else here(value, location)
    if isinstance(map_location, _C.device) or not callable(map_location):
        device = _C.device(map_location)
        return lambda value, location: value.to(device)

    def call(value: Tensor, location: str) -> Tensor:
        given = UntypedStorage._of(value.contiguous().reshape(-1).view(_C.uint8))
        result = map_location(given, location)
        if result is None:
            return here(value, location)
        if result is given:
            return value
        if isinstance(result, (UntypedStorage, TypedStorage)):
            found = result.untyped()._bytes
            if len(found) != len(given._bytes):
                raise TypeError(f"load: map_location returned {len(found)} bytes for {len(given._bytes)}; expected another place for them")
            return found.view(value.dtype).reshape(value.shape)
        if not isinstance(result, Tensor):
            raise TypeError(f"load: map_location returned a {type(result).__name__}; expected a storage, a Tensor or None")
        return result

    return call
