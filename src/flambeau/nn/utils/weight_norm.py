"""Weight normalisation: a weight as its length times a direction.

The parameters are `weight_g` (lengths) and `weight_v` (directions); the weight itself is computed
from them before every forward.
"""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau._errors import NoParameterError, no_such_axis
from flambeau._info import whole_number
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter


@wants_tensors
def norm_except_dim(v: Tensor, pow: int = 2, dim: int | None = 0) -> Tensor:
    """The norms of the slices along `dim`, with the other axes of size 1; None or -1 takes all."""
    if dim is None or dim == -1:
        return ops.norm(v, pow)
    axis = whole_number("norm_except_dim", "dim", dim)
    if not -v.ndim <= axis < v.ndim:
        raise no_such_axis("norm_except_dim", "dim", axis, v.shape)
    axis %= v.ndim
    others = [d for d in range(v.ndim) if d != axis]
    return ops.norm(v, pow, others, keepdim=True) if others else v.abs()


class WeightNorm:
    """The hook that computes the weight."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Module) -> Tensor:
        """g v / |v|."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, 2, self.dim))  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _find(module: Module, kind: type, name: str) -> int | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined]
            return int(key)
    return None


def _find_weight(module: Module, what: str, name: str) -> Parameter:
    weight = module._parameters.get(name)
    if weight is None:
        raise NoParameterError(f"{what}: {type(module).__name__} has no parameter '{name}'")
    return weight  # type: ignore[no-any-return]


def _take(module: Module, what: str, name: str) -> Parameter:
    weight = _find_weight(module, what, name)
    del module._parameters[name]
    return weight


@wants_tensors
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replaces the parameter `name` by `name_g` and `name_v`; `dim` keeps its own lengths.

    Raises:
        ValueError: there is no such parameter.
        RuntimeError: it is normalised already.

    Source: Salimans and Kingma 2016, eq. 2.

    >>> import flambeau as fl
    >>> layer = fl.nn.utils.weight_norm(fl.nn.Linear(20, 40), name="weight")
    >>> layer.weight_g.shape, layer.weight_v.shape
    (flambeau.Size([40, 1]), flambeau.Size([40, 20]))
    """
    if _find(module, WeightNorm, name) is not None:
        raise RuntimeError(f"weight_norm: Cannot register two weight_norm hooks on the same parameter {name} of {type(module).__name__}")
    warn("`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`", FutureWarning)
    hook = WeightNorm(name, dim)
    lengths = norm_except_dim(_find_weight(module, "weight_norm", name).detach(), 2, dim)
    weight = _take(module, "weight_norm", name).detach()
    module.register_parameter(name + "_g", Parameter(lengths))
    module.register_parameter(name + "_v", Parameter(weight))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


@wants_tensors
def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight an ordinary parameter again.

    Raises:
        ValueError: it is not normalised.
    """
    key = _find(module, WeightNorm, name)
    if key is None:
        raise ValueError(f"remove_weight_norm: weight_norm of '{name}' not found in {type(module).__name__}")
    weight = module._forward_pre_hooks.pop(key).compute_weight(module).detach()
    delattr(module, name)
    delattr(module, name + "_g")
    delattr(module, name + "_v")
    module.register_parameter(name, Parameter(weight))
    return module
