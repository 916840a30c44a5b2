"""`torch.optim.optimizer`: what optimizers are written with that follow PyTorch's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from flambeau import _C as _core
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
)
from flambeau.optim.optimizer import Optimizer

__all__: list[str] = []
_private = (_get_foreach_kernels_supported_devices, _group_tensors_by_device_and_dtype)  # which programs take from here

Optimizer._group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)  # type: ignore[attr-defined]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]

# Parts of the docstrings of PyTorch's optimizers, which others put into theirs.
_params_doc = "params (iterable): iterable of parameters or named_parameters to optimize or iterable of dicts defining parameter groups."
_foreach_doc = "foreach (bool, optional): whether foreach implementation of optimizer is used (default: None)"
_fused_doc = "fused (bool, optional): whether the fused implementation is used (default: None)"
_capturable_doc = "capturable (bool, optional): whether this instance is safe to capture in a graph (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether autograd should occur through the optimizer step in training (default: False)"
_maximize_doc = "maximize (bool, optional): maximize the objective with respect to the params, instead of minimizing (default: False)"


def _get_value(x: Any) -> Any:
    """A number, also of a tensor of one element."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """`x`: steps are not compiled by PyTorch's compiler here."""
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without axes; others as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The type of counts of steps."""
    return _core.float64 if not is_fused and _core.get_default_dtype() is _core.float64 else _core.float32


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where optimizers have fused steps."""
    return ["cpu"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Where steps can be captured in graphs of a GPU."""
    return []


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Which implementation an optimizer takes that is not told: (fused, foreach)."""
    return bool(use_fused and not differentiable and all(p is None or p.is_floating_point() for p in params)), False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raises for a parameter that fused steps do not take."""
    if not p.is_floating_point():
        raise RuntimeError(f"`fused=True` requires all the params to be floating point Tensors of supported devices: ['cpu'] but {p.dtype} and {p.device.type}")


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replaces complex parameters in the list, and what belongs to them in the others, by views as pairs."""
    for i, p in enumerate(params):
        if p.is_complex():
            params[i] = _core.ops.view_as_real(p)
            for entries in state_and_grads:
                entries[i] = _core.ops.view_as_real(entries[i])


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an optimizer that records where the optimizer is `differentiable`, and does not elsewhere."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _core.set_grad_enabled(bool(self.defaults["differentiable"]))
        try:
            return func(self, *args, **kwargs)
        finally:
            _core.set_grad_enabled(before)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that gives the function back: no function is compiled by PyTorch's compiler here."""
    return lambda func: func
