"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from flambeau.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters and buffers are made but not filled: for those that a file fills, or another initialisation.

    Args:
        module_cls: the class; it takes `device` and gives it to everything that it makes.
        device: where the tensors shall lie, among the keywords; "cpu" by default.

    Raises:
        TypeError: the class is no Module.
        RuntimeError: its arguments have no `device`.

    >>> import flambeau as fl
    >>> fl.nn.utils.skip_init(fl.nn.Linear, 5, 1).weight.shape
    flambeau.Size([1, 5])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise TypeError(f"skip_init: module_cls = {module_cls!r}; expected a class of modules")
    parameters = inspect.signature(module_cls).parameters.values()
    if not any(p.name == "device" or p.kind is p.VAR_KEYWORD for p in parameters):
        raise RuntimeError(f"skip_init: {module_cls.__name__} takes no argument 'device'; give it one, or initialise it under nn.init")
    device = kwargs.pop("device", "cpu")
    module: Module = module_cls(*args, device="meta", **kwargs)
    return module.to_empty(device=device)
