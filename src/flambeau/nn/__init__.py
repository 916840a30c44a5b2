"""Neural network layers, losses and their helpers.

Example:
    >>> from flambeau import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
"""

import importlib as _importlib
import typing as _typing

from flambeau.nn import functional, grad, init, modules, utils
from flambeau.nn.containers import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from flambeau.nn.module import Module
from flambeau.nn.modules import *
from flambeau.nn.modules.utils import factory_kwargs
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "Container",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "init",
    "utils",
]
__all__ += modules.__all__

# Imported when they are first used.
_LAZY = {**{name: name for name in ("attention", "parallel", "quantized")}, "DataParallel": "parallel", "SyncBatchNorm": "modules.sync"}

if _typing.TYPE_CHECKING:
    from flambeau.nn import attention, parallel, quantized
    from flambeau.nn.modules.sync import SyncBatchNorm
    from flambeau.nn.parallel import DataParallel
else:

    def __getattr__(name: str) -> _typing.Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'flambeau.nn' has no attribute '{name}'")
        home = _importlib.import_module(f"flambeau.nn.{_LAZY[name]}")
        return home if name == _LAZY[name] else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ += ["DataParallel", "SyncBatchNorm", "attention", "parallel", "quantized"]
