"""`torch._functorch.make_functional`: modules as functions of tuples of their weights. New programs call `torch.func.functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau.func import functional_call, stack_module_state
from flambeau.nn.module import Module


class FunctionalModuleWithBuffers(Module):
    """A module without weights: it is called with those of its parameters, those of its buffers, and the arguments."""

    def __init__(self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.__dict__["stateless_model"] = stateless_model  # no child: its parameters are nobody's
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(self.param_names, params, strict=True)) | dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.__dict__["stateless_model"], given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without parameters: it is called with their values and the arguments."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward(params, (), *args, **kwargs)


def _copied(model: Module, disable_autograd_tracking: bool) -> tuple[Module, dict[str, Tensor]]:
    made = copy.deepcopy(model)
    params: dict[str, Tensor] = dict(made.named_parameters())
    if disable_autograd_tracking:
        for param in params.values():
            param.requires_grad_(False)
    return made, params


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(f, params): f(params, ...) computes what `model(...)` does with these parameters; params are a copy of the model's.

    Raises:
        RuntimeError: the model has buffers.
    """
    if names := [name for name, _ in model.named_buffers()]:
        raise RuntimeError(f"make_functional: the model has buffers ({', '.join(names[:3])}); call make_functional_with_buffers")
    made, params = _copied(model, disable_autograd_tracking)
    return FunctionalModule(made, tuple(params), ()), tuple(params.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(f, params, buffers): f(params, buffers, ...) computes what `model(...)` does with these; both are copies of the model's."""
    made, params = _copied(model, disable_autograd_tracking)
    buffers = dict(made.named_buffers())
    return FunctionalModuleWithBuffers(made, tuple(params), tuple(buffers)), tuple(params.values()), tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(f, params, buffers) of several models of one kind, whose weights are stacked: for `vmap` over them.

    Raises:
        RuntimeError: no model is given, or they are of several classes or modes.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: there are no models; expected at least one")
    params, buffers = stack_module_state(list(models))
    made = copy.deepcopy(models[0])
    return FunctionalModuleWithBuffers(made, tuple(params), tuple(buffers)), tuple(params.values()), tuple(buffers.values())
