"""Parameters that are computed of others whenever they are read.

A parametrised module is of a class of its own, in which the parameter's name is a property; what it is computed of are the
parameters `parametrizations.NAME.original0` and so on, under which state dicts hold them.
"""

from __future__ import annotations

import copy
from typing import Any

from flambeau._C import Tensor
from flambeau.nn.containers import ModuleDict
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.weight_norm import norm_except_dim

__all__ = ["weight_norm"]


class _WeightNorm(Module):
    """original0 v / |v| of the directions v = original1, with the lengths original0."""

    original0: Parameter
    original1: Parameter

    def __init__(self, weight: Parameter, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim
        data = weight.detach()
        self.original0 = Parameter(norm_except_dim(data, 2, self.dim).clone(), weight.requires_grad)
        self.original1 = Parameter(data, weight.requires_grad)

    def forward(self) -> Tensor:
        lengths = norm_except_dim(self.original1, 2, self.dim)
        return self.original1 * (self.original0 / lengths)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"weight_norm, dim={self.dim}"


def _read(name: str) -> property:
    return property(lambda module: module.parametrizations[name]())


def _no_pickle(module: Any, protocol: Any) -> Any:
    raise RuntimeError(f"{type(module).__name__}: a parametrised module can not be pickled; save its state_dict()")


def _copy(module: Any, memo: dict[int, Any]) -> Any:
    cls: Any = type(module)
    new = object.__new__(cls)
    memo[id(module)] = new
    new.__dict__.update(copy.deepcopy(module.__dict__, memo))
    return new


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replaces the parameter `name` by its lengths and directions, of which it is computed whenever it is read.

    Args:
        dim: the axis along which each slice has a length of its own; None: one length for all.

    Raises:
        ValueError: there is no such parameter.
        RuntimeError: it is parametrised already.

    Source: Salimans and Kingma 2016, eq. 2.

    >>> import flambeau as fl
    >>> layer = fl.nn.utils.parametrizations.weight_norm(fl.nn.Linear(20, 40), name="weight")
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (flambeau.Size([40, 1]), flambeau.Size([40, 20]))
    """
    if name in getattr(module, "_modules", {}).get("parametrizations", ()):
        raise RuntimeError(f"weight_norm: '{name}' of {type(module).__name__} is parametrised already")
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"weight_norm: {type(module).__name__} has no parameter '{name}'")
    cls, title = type(module), type(module).__name__
    if "parametrizations" not in module._modules:
        title = f"Parametrized{title}"
        module.parametrizations = ModuleDict()
    del module._parameters[name]
    module.parametrizations[name] = _WeightNorm(weight, dim)
    body = {"__module__": cls.__module__, "__reduce_ex__": _no_pickle, "__deepcopy__": _copy, name: _read(name)}
    module.__class__ = type(title, (cls,), body)
    return module
