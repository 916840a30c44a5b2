"""What tracers of packages that say `trace` themselves take from `torch.fx._symbolic_trace`: how modules and functions are replaced meanwhile."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import os
import warnings
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from flambeau.compat._torch.overlay._scripts import ScriptObject
from flambeau.fx._compatibility import compatibility
from flambeau.fx._patches import (
    Patcher,
    patch_listed,
    patch_wrapped,
    wrapped_function,
    wrapped_names,
)
from flambeau.fx._takeover import functions_recorded_whole
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import ParameterProxy, Proxy, Scope, TracerBase
from flambeau.nn.module import Module

__all__ = [
    "CodeType", "FunctionType", "Graph", "GraphModule", "ModuleType", "ParameterProxy", "Proxy", "Scope", "ScriptObject", "TracerBase",
    "collections", "compatibility", "copy", "functools", "inspect", "map_aggregate", "math", "os", "warnings",
]  # fmt: skip

_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
_create_wrapped_func = wrapped_function
_wrapped_fns_to_patch = wrapped_names


class _Patcher(Patcher):
    """Replaces methods and names while a program is traced. Inside, functions of the library are recorded whole."""

    def __enter__(self) -> _Patcher:
        self._whole = functions_recorded_whole()
        self._whole.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._whole.__exit__(*exc)

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Gives a class another method, once where `deduplicate`."""
        if getattr(getattr(cls, name), "_of_a_patcher", False):
            return
        new_fn._of_a_patcher = deduplicate
        super().patch_method(cls, name, new_fn)

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Gives a name in a module's globals another meaning, once where `deduplicate`."""
        if getattr(frame_dict.get(name), "_of_a_patcher", False):
            return
        new_fn._of_a_patcher = deduplicate
        super().patch(frame_dict, name, new_fn)


def _autowrap_check(patcher: Patcher, frame_dict: dict[str, Any], function_ids: Iterable[int]) -> None:
    """Replaces the listed functions in a module's globals."""
    patch_listed(patcher, frame_dict, function_ids)


def _patch_wrapped_functions(patcher: Patcher) -> None:
    """Replaces what `torch.fx.wrap` has marked."""
    patch_wrapped(patcher)
