"""Helpers that are not about tensors: data loading, checkpointing."""

import importlib as _importlib
import typing as _typing

from flambeau.utils import checkpoint, data

if _typing.TYPE_CHECKING:
    from flambeau.utils import benchmark, flop_counter, model_zoo, tensorboard
    from flambeau.utils._swap import swap_tensors
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("benchmark", "flop_counter", "model_zoo", "tensorboard"):
            return _importlib.import_module(f"flambeau.utils.{name}")
        if name == "swap_tensors":
            return _importlib.import_module("flambeau.utils._swap").swap_tensors
        raise AttributeError(f"module 'flambeau.utils' has no attribute '{name}'")


__all__ = ["benchmark", "checkpoint", "data", "flop_counter", "model_zoo", "swap_tensors", "tensorboard"]
