"""`torch.ao.nn`."""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from flambeau.ao.nn import intrinsic, quantized
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("intrinsic", "quantized"):
            return _importlib.import_module(f"flambeau.ao.nn.{name}")
        raise AttributeError(f"module 'flambeau.ao.nn' has no attribute '{name}'")


__all__ = ["intrinsic", "quantized"]
