"""States of models and optimizers, as programs ask for them that may run in many processes. Here is one process, which has all parameters.

States of optimizers are by the names of parameters instead of their numbers, so that they fit another optimizer with other groups:

    {"state": {"0.weight": {"exp_avg": ...}}, "param_groups": [{"lr": ..., "params": ["0.weight"]}]}

Names are those of the model before it was compiled, or wrapped to be computed again in backward.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.autograd.modes import no_grad
from flambeau.compiler import OptimizedModule
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    _WRAPPED,
    CheckpointWrapper,
)
from flambeau.nn import Module
from flambeau.nn._state import _IncompatibleKeys
from flambeau.optim import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """What a state shall hold, and how it is taken over. In one process every state is full, and lies where the model lies.

    Args:
        ignore_frozen_params: leaves out parameters that do not require gradients.
        keep_submodule_prefixes: with `submodules`, names begin at the model and not at the submodule.
        strict: other names than the model's, or fewer, are an error.
        broadcast_from_rank0: refused, since there is no group of processes to send to.
        flatten_optimizer_state_dict: the state of optimizers is one dict, `state.NAME.KEY` and `param_groups.NAME.KEY`.
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


def _plain_name(model: Module, name: str) -> str:
    """A name of the model's without what compiling and wrapping added."""
    kept, at = [], model
    for part in name.split("."):
        if isinstance(at, CheckpointWrapper) and part != _WRAPPED:  # states leave that part out
            at = at._modules[_WRAPPED]  # type: ignore[assignment]
        inner = (part == "_orig_mod" and isinstance(at, OptimizedModule)) or (part == _WRAPPED and isinstance(at, CheckpointWrapper))
        kept += [] if inner else [part]
        at = at._modules.get(part) if isinstance(at, Module) else None  # type: ignore[assignment]
    return ".".join(kept)


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
    frozen = {_plain_name(model, name) for name, param in model.named_parameters(remove_duplicate=False) if not param.requires_grad}
    named = ((_plain_name(model, name), value) for name, value in model.state_dict().items())
    entries = {name: value for name, value in named if not (options.ignore_frozen_params and name in frozen)}
    chosen: OrderedDict[str, Any] = OrderedDict()
    for prefix in [""] if submodules is None else _prefixes(model, list(submodules)):
        kept = "" if options.keep_submodule_prefixes else prefix
        chosen.update((name.removeprefix(kept), value) for name, value in entries.items() if name.startswith(prefix))
    return chosen


def _prefixes(model: Module, submodules: list[Module]) -> list[str]:
    names = {module: f"{_plain_name(model, name)}." if name else "" for name, module in model.named_modules()}
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
    if isinstance(next(iter(model_state_dict)), Module):  # parts by the module that they belong to
        parts = zip(_prefixes(model, list(model_state_dict)), model_state_dict.values())  # type: ignore[arg-type]
        model_state_dict = {f"{prefix}{name}": value for prefix, part in parts for name, value in part.items()}
    real = {_plain_name(model, name): name for name in model.state_dict()}
    return model.load_state_dict({real.get(name, name): value for name, value in model_state_dict.items()}, strict=options.strict)


# ------------------------------------------------------------------------------------------- optimizers


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Iterable[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of one or several optimizers of the model, by names of parameters.

    An optimizer that has made no step yet makes one whose gradients and learning rate are zero, so that there is a state to be filled.

    Args:
        submodules: has no say, as in PyTorch: the state is that of all that is optimized.

    Raises:
        ValueError: an optimizer has a parameter that is none of the model's, or `options` ask for other processes.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = fl.nn.Linear(2, 1)
        >>> state = get_optimizer_state_dict(model, fl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        >>> list(state["state"]), state["param_groups"][0]["params"]
        (['weight', 'bias'], ['weight', 'bias'])
    """
    options = _checked("get_optimizer_state_dict", options)
    names = _names_of(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _several(optimizers):
        _make_state(optimizer)
        named = [name for group in optimizer.param_groups for name in _first_names(names, group, optimizer)]
        held = optimizer.state_dict()
        state.update((named[key] if type(key) is int else key, value) for key, value in held["state"].items())
        groups += [{**group, "params": [named[number] for number in group["params"]]} for group in held["param_groups"]]
    if options.flatten_optimizer_state_dict:
        return _flattened(state, groups)
    return {"state": state, "param_groups": groups}


def _several(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _names_of(model: Module) -> dict[Tensor, list[str]]:
    """The names of each parameter; one that is used twice has two."""
    names: dict[Tensor, list[str]] = {}
    for name, param in model.named_parameters(remove_duplicate=False):
        names.setdefault(param, []).append(_plain_name(model, name))
    return names


def _first_names(names: dict[Tensor, list[str]], group: dict[str, Any], optimizer: Optimizer) -> list[str]:
    for number, param in enumerate(group["params"]):
        if param not in names:
            what = f"parameter {number} of a group, of shape {list(param.shape)}, is none of the model's"
            raise ValueError(f"{type(optimizer).__name__}: {what}; expected the model whose parameters it changes")
    return [names[param][0] for param in group["params"]]


def _make_state(optimizer: Optimizer) -> None:
    """A step that changes nothing: gradients and learning rates are zero."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    if optimizer.state or any(param.grad is not None for param in params):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    with no_grad():
        for param in params:
            if param.requires_grad:
                param.grad = ops.zeros_like(param)
        for group in optimizer.param_groups:
            if "lr" in group:
                group["lr"] = ops.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
        try:
            optimizer.step()
        finally:
            for group, rate in zip(optimizer.param_groups, rates):
                if "lr" in group:
                    group["lr"] = rate
            optimizer.zero_grad(set_to_none=True)


def _add_leaves(flat: dict[str, Any], prefix: str, held: dict[Any, Any]) -> None:
    for key, value in held.items():
        if isinstance(value, dict):
            _add_leaves(flat, f"{prefix}.{key}", value)
        elif isinstance(value, (Tensor, int, float)):
            flat[f"{prefix}.{key}"] = value
        else:
            what = f"{prefix}.{key} is a {type(value).__name__}"
            raise NotImplementedError(f"flatten_optimizer_state_dict: {what}; expected tensors, numbers and dicts of them")


def _flattened(state: dict[str, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    _add_leaves(flat, "state", state)
    for group in groups:
        for name in group["params"]:
            flat.update((f"param_groups.{name}.{key}", value) for key, value in group.items() if key != "params")
    return flat


def _unflattened(optimizer: Optimizer, names: dict[Tensor, list[str]], flat: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        keys = [key for key in group if key != "params"]
        made: dict[str, Any] = {"params": []}
        for param in group["params"]:
            for name in names[param]:
                known = {key: flat[f"param_groups.{name}.{key}"] for key in keys if f"param_groups.{name}.{key}" in flat}
                if not known:
                    continue
                made["params"].append(name)
                for key, value in known.items():
                    if key in made and made[key] != value:
                        raise RuntimeError(
                            f"set_optimizer_state_dict: {name} was saved with {key} = {value!r}, other parameters of its group with "
                            f"{made[key]!r}; expected one"
                        )
                made.update(known)
                if param.requires_grad and optimizer.state[param]:
                    state[name] = {key: _nested(f"state.{name}.{key}", flat) for key in optimizer.state[param]}
                break
        groups.append(made)
    return {"state": state, "param_groups": groups}


def _nested(prefix: str, flat: dict[str, Any]) -> Any:
    if prefix in flat:
        return flat[prefix]
    made: dict[str, Any] = {}
    for key, value in flat.items():
        if key.startswith(f"{prefix}."):
            at, *parts = made, *key[len(prefix) + 1 :].split(".")
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            at[parts[-1]] = value
    return made


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Takes over a state that `get_optimizer_state_dict` returned, of these or other optimizers of a model with the same names.

    Raises:
        RuntimeError: there is no state, or none of a parameter (`StateDictOptions(strict=False)` allows the second).
        ValueError: a parameter is none of the model's, or is in no group of the state.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
        >>> model = fl.nn.Linear(2, 1)
        >>> first = fl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> second = fl.optim.SGD([model.bias, model.weight], lr=0.5, momentum=0.9)
        >>> set_optimizer_state_dict(model, second, get_optimizer_state_dict(model, first))
        >>> second.param_groups[0]["lr"], len(second.state)
        (0.1, 2)
    """
    options = _checked("set_optimizer_state_dict", options)
    if not optim_state_dict:
        raise RuntimeError("set_optimizer_state_dict: the state is empty; expected what get_optimizer_state_dict returned")
    names = _names_of(model)
    for optimizer in _several(optimizers):
        _make_state(optimizer)
        for group in optimizer.param_groups:
            _first_names(names, group, optimizer)
        held = optim_state_dict if "state" in optim_state_dict else _unflattened(optimizer, names, optim_state_dict)
        if held["state"] and all(type(key) is int for key in held["state"]):  # an optimizer's own
            optimizer.load_state_dict(held)
        else:
            optimizer.load_state_dict(_by_number(optimizer, names, held, options.strict))


def _by_number(optimizer: Optimizer, names: dict[Tensor, list[str]], held: dict[str, Any], strict: bool) -> dict[str, Any]:
    """The part of a state that belongs to one optimizer, by the numbers of its parameters."""
    home = {name: group for group in held["param_groups"] for name in group["params"]}
    empty = [group for group in held["param_groups"] if not group["params"]]
    state: dict[int, Any] = {}
    groups = []
    number = 0
    for group in optimizer.param_groups:
        made: dict[str, Any] = {}
        if not group["params"] and len(empty) == 1:
            made.update(empty[0])
        made["params"] = []
        for param in group["params"]:
            saved = next((name for name in names[param] if name in home), None)
            if saved is None:
                raise ValueError(f"set_optimizer_state_dict: {names[param][0]} is in no group of the state; expected one that has it")
            made.update((key, value) for key, value in home[saved].items() if key != "params")
            made["params"].append(number)
            if saved in held["state"]:
                state[number] = held["state"][saved]
            elif strict and held["state"] and param.requires_grad:
                raise RuntimeError(
                    f"Missing optimizer state for parameter '{saved}' in checkpoint. To load anyway, use StateDictOptions(strict=False)."
                )
            number += 1
        groups.append(made)
    return {"state": state, "param_groups": groups}


# ------------------------------------------------------------------------------------------- both


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Iterable[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the model's state, that of its optimizers; of none an empty dict): `get_model_state_dict`, `get_optimizer_state_dict`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict
        >>> model = fl.nn.Linear(2, 1)
        >>> of_model, of_optimizer = get_state_dict(model, fl.optim.Adam(model.parameters()))
        >>> list(of_model), list(of_optimizer["state"]["bias"])
        (['weight', 'bias'], ['step', 'exp_avg', 'exp_avg_sq'])
    """
    chosen = _several(optimizers)
    of_optimizers = get_optimizer_state_dict(model, chosen, options=options) if chosen else {}
    return get_model_state_dict(model, submodules=submodules, options=options), of_optimizers


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Takes over both states of `get_state_dict`, and returns what `set_model_state_dict` returns.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> model = fl.nn.Linear(2, 1)
        >>> optimizer = fl.optim.Adam(model.parameters())
        >>> of_model, of_optimizer = get_state_dict(model, optimizer)
        >>> set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
        <All keys matched successfully>
    """
    if chosen := _several(optimizers):
        set_optimizer_state_dict(model, chosen, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
