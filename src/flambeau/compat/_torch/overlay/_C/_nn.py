"""`torch._C._nn`: functions of `torch.nn.functional` under their inner place, and how the arguments of `to` are read."""

from __future__ import annotations

from typing import Any

from flambeau import _C, nn
from flambeau.nn._changes import parse_to as _read


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of a call of `to`."""
    device, dtype = _read(args, kwargs)
    device = device if device is None or isinstance(device, _C.device) else _C.device(device)
    return device, dtype, bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")


def __getattr__(name: str) -> Any:
    return getattr(nn.functional, name)
