"""Spectral normalisation: a weight divided by its largest singular value.

The parameter is `weight_orig`; the vectors of the power iteration are the buffers `weight_u` and
`weight_v`. The weight itself is computed from them before every forward.

State dicts say that they hold both vectors, by a version. Those of before hold the weight instead of `weight_v`, which is computed of it.
"""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau.autograd import no_grad
from flambeau.nn.functional import normalize
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.weight_norm import _find, _find_weight, _take


class SpectralNorm:
    """The hook that computes the weight."""

    _version = 1

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight with the axis `dim` as rows."""
        rows: Tensor = weight.movedim(self.dim, 0)
        return rows.reshape(rows.shape[0], -1)

    def compute_weight(self, module: Module, iterate: bool) -> Tensor:
        """weight / (u^T weight v), after the iterations of training."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(ops.mv(matrix.detach().t(), u), dim=0, eps=self.eps))
                    u.copy_(normalize(ops.mv(matrix.detach(), v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next forward writes into the buffers
        return weight / ops.dot(u, ops.mv(matrix, v))  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


class _OfSpectralNorm:
    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn


class SpectralNormStateDictHook(_OfSpectralNorm):
    """The hook that writes the version."""

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[self.fn.name + ".version"] = self.fn._version


class SpectralNormLoadStateDictPreHook(_OfSpectralNorm):
    """The hook that computes `weight_v` where a state dict has the weight instead."""

    def __call__(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        key = prefix + self.fn.name
        if version is not None and version >= 1:
            return
        if version is None and key not in state_dict and all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v")):
            return  # made by hand, without a version
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        from flambeau import linalg  # here alone: it takes a while to load

        with no_grad():
            weight, original, u = state_dict.pop(key), state_dict[key + "_orig"], state_dict[key + "_u"]
            matrix = self.fn.matrix(original)
            v = linalg.pinv(matrix) @ u  # W v = u, up to the length: u . W v is what the weight was divided by
            v *= (original / weight).mean() / ops.dot(u, matrix @ v)
            state_dict[key + "_v"] = v


@wants_tensors
def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides the parameter `name` by its largest singular value, estimated by power iteration.

    `dim` is the axis of the outputs: by default 1 for transposed convolutions and 0 for others.

    Raises:
        ValueError: there is no such parameter, or no iterations.
        RuntimeError: it is normalised already.

    Source: Miyato et al. 2018, algorithm 1.
    """
    if _find(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"spectral_norm: '{name}' of {type(module).__name__} is normalised already")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = _find_weight(module, "spectral_norm", name)
    with no_grad():
        rows, columns = hook.matrix(weight.detach()).shape
        u = normalize(ops.empty(rows, dtype=weight.dtype).normal_(0, 1), dim=0, eps=eps)
        v = normalize(ops.empty(columns, dtype=weight.dtype).normal_(0, 1), dim=0, eps=eps)
    module.register_parameter(name + "_orig", _take(module, "spectral_norm", name))
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(SpectralNormStateDictHook(hook))
    module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
    return module


@wants_tensors
def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight an ordinary parameter again.

    Raises:
        ValueError: it is not normalised.
    """
    key = _find(module, SpectralNorm, name)
    if key is None:
        raise ValueError(f"remove_spectral_norm: spectral_norm of '{name}' not found in {type(module).__name__}")
    with no_grad():
        weight = module._forward_pre_hooks.pop(key).compute_weight(module, False).detach()
    for suffix in ("", "_orig", "_u", "_v"):
        delattr(module, name + suffix)
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for each in [n for n, other in table.items() if isinstance(other, _OfSpectralNorm) and other.fn.name == name]:
            del table[each]
    module.register_parameter(name, Parameter(weight))
    return module
