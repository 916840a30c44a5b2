"""Quantisation: models that could be quantised run as the floating point models that they are."""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from flambeau.ao import nn, quantization
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("nn", "quantization"):
            return _importlib.import_module(f"flambeau.ao.{name}")
        raise AttributeError(f"module 'flambeau.ao' has no attribute '{name}'")


__all__ = ["nn", "quantization"]
