"""Modules around modules whose activations are computed again in backward, or wait for it in other memory.

A wrapped model has the states and the names of parameters that it had before, so files of one fit the other.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flambeau.autograd.graph import save_on_cpu
from flambeau.nn import Module, Parameter
from flambeau.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing", "checkpoint_wrapper",
    "offload_wrapper",
]  # fmt: skip

_WRAPPED = "_checkpoint_wrapped_module"
_PREFIX = _WRAPPED + "."


class CheckpointImpl(enum.Enum):
    """How `utils.checkpoint.checkpoint` is called: with `use_reentrant` or without."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _rename(state, prefix + _PREFIX, prefix)


def _with_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _rename(state, prefix, prefix + _PREFIX)


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    for key in list(state):
        if key.startswith(old):
            state[new + key.removeprefix(old)] = state.pop(key)


class ActivationWrapper(Module):
    """A module around another, which answers for it: its attributes, its items, and the names in its state."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_WRAPPED), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """What the module saves for backward waits in the memory of the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """The module runs again in backward; of its first run nothing is kept but the arguments."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.checkpoint_impl is CheckpointImpl.NO_REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        names = tuple(kwargs)  # the node of the reentrant one takes no keywords

        def call(*given: Any) -> Any:
            cut = len(given) - len(names)
            return self._checkpoint_wrapped_module(*given[:cut], **dict(zip(names, given[cut:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """The module with `utils.checkpoint.checkpoint` around its calls.

    Args:
        checkpoint_fn: is called in place of `utils.checkpoint.checkpoint`, with the module and its arguments.
        checkpoint_fn_kwargs: further arguments of that function, as `preserve_rng_state=False`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        >>> net = fl.nn.Sequential(fl.nn.Linear(2, 3), checkpoint_wrapper(fl.nn.Linear(3, 1)))
        >>> list(net.state_dict())
        ['0.weight', '0.bias', '1.weight', '1.bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> OffloadWrapper:
    """The module with `autograd.graph.save_on_cpu` around its calls.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
        >>> offload_wrapper(fl.nn.Linear(3, 1)).in_features
        3
    """
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wraps the modules inside of the model for which `check_fn` is true, in place; the model itself is left as it is.

    Args:
        auto_wrap_policy: in place of `check_fn`. It is called with `module`, `nonwrapped_numel` (of its parameters, without what is
            wrapped already) and `recurse`: True asks whether to look at the module at all, False, after its parts, whether to wrap it.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        >>> net = fl.nn.Sequential(fl.nn.Linear(2, 3), fl.nn.ReLU())
        >>> apply_activation_checkpointing(net, check_fn=lambda module: isinstance(module, fl.nn.Linear))
        >>> [type(module).__name__ for module in net]
        ['CheckpointWrapper', 'ReLU']
    """

    policy = auto_wrap_policy or (lambda module, recurse, nonwrapped_numel: recurse or check_fn(module))
    if policy(module=model, recurse=True, nonwrapped_numel=_numel(model)):
        _wrap_children(model, checkpoint_wrapper_fn, policy)


def _wrap_children(model: Module, wrap: Callable[[Module], Module], policy: Callable[..., bool]) -> int:
    """How many numbers the parameters have that lie in what was wrapped."""
    wrapped = 0
    for name, child in list(model.named_children()):
        size = _numel(child)
        if not policy(module=child, recurse=True, nonwrapped_numel=size):
            continue
        inside = _wrap_children(child, wrap, policy)
        if policy(module=child, recurse=False, nonwrapped_numel=size - inside):
            model.register_module(name, wrap(child))
            inside = size
        wrapped += inside
    return wrapped


def _numel(module: Module) -> int:
    return sum(p.numel() for p in module.parameters())
