"""Helpers that are not about tensors: data loading, checkpointing."""

import importlib as _importlib
import typing as _typing

from flambeau.utils import checkpoint, data

if _typing.TYPE_CHECKING:
    from flambeau.utils import (
        benchmark,
        deterministic,
        flop_counter,
        hooks,
        model_zoo,
        module_tracker,
        tensorboard,
    )
    from flambeau.utils._swap import swap_tensors
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("benchmark", "deterministic", "flop_counter", "hooks", "model_zoo", "module_tracker", "tensorboard"):
            return _importlib.import_module(f"flambeau.utils.{name}")
        if name == "swap_tensors":
            return _importlib.import_module("flambeau.utils._swap").swap_tensors
        raise AttributeError(f"module 'flambeau.utils' has no attribute '{name}'")


__all__ = [
    "benchmark", "checkpoint", "data", "deterministic", "flop_counter", "hooks", "model_zoo", "module_tracker", "swap_tensors",
    "tensorboard",
]  # fmt: skip
