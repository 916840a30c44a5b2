"""States of models, as programs ask for them that may run in many processes. Here is one process, which has all parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flambeau.nn import Module
from flambeau.nn._state import _IncompatibleKeys

__all__ = ["StateDictOptions", "get_model_state_dict", "set_model_state_dict"]


@dataclass
class StateDictOptions:
    """What a state shall hold, and how it is taken over. In one process every state is full, and lies where the model lies.

    Args:
        ignore_frozen_params: leaves out parameters that do not require gradients.
        keep_submodule_prefixes: with `submodules`, names begin at the model and not at the submodule.
        strict: other names than the model's, or fewer, are an error.
        broadcast_from_rank0: refused, since there is no group of processes to send to.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(op: str, options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        raise ValueError(f"{op}: broadcast_from_rank0 = True, but there is no group of processes to send to; leave it out")
    return options


def get_model_state_dict(
    model: Module, *, submodules: Iterable[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's `state_dict`, or the part of it that belongs to `submodules`.

    Raises:
        ValueError: one of `submodules` is not part of the model, or `options` ask for other processes.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
        >>> model = fl.nn.Sequential(fl.nn.Linear(2, 2), fl.nn.Linear(2, 1, bias=False))
        >>> list(get_model_state_dict(model))
        ['0.weight', '0.bias', '1.weight']
        >>> list(get_model_state_dict(model, submodules=[model[1]], options=StateDictOptions(keep_submodule_prefixes=False)))
        ['weight']
    """
    options = _checked("get_model_state_dict", options)
    frozen = {name for name, param in model.named_parameters(remove_duplicate=False) if not param.requires_grad}
    entries = {
        name: value for name, value in model.state_dict().items() if not (options.ignore_frozen_params and name in frozen)
    }
    chosen: OrderedDict[str, Any] = OrderedDict()
    for prefix in [""] if submodules is None else _prefixes(model, list(submodules)):
        kept = "" if options.keep_submodule_prefixes else prefix
        chosen.update((name.removeprefix(kept), value) for name, value in entries.items() if name.startswith(prefix))
    return chosen


def _prefixes(model: Module, submodules: list[Module]) -> list[str]:
    names = {module: f"{name}." if name else "" for name, module in model.named_modules()}
    for module in submodules:
        if module not in names:
            raise ValueError(f"get_model_state_dict: a {type(module).__name__} among submodules is not part of the {type(model).__name__}")
    return [names[module] for module in submodules]


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Takes a state over as `model.load_state_dict` does, and returns what that returns; of an empty state nothing.

    Raises:
        ValueError: `options` ask for other processes.
        RuntimeError: names or sizes that do not fit.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import set_model_state_dict
        >>> set_model_state_dict(fl.nn.Linear(1, 1), {"weight": fl.ones(1, 1), "bias": fl.ones(1)})
        <All keys matched successfully>
    """
    options = _checked("set_model_state_dict", options)
    if not model_state_dict:
        return _IncompatibleKeys([], [])
    return model.load_state_dict(model_state_dict, strict=options.strict)
