"""An optimizer that for a while steps other parameters, with another state."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from flambeau._C import Tensor
from flambeau.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: Mapping[str, Tensor], swapin_optim_state: Mapping[str, Any]
) -> Iterator[None]:
    """Inside, the optimizer and its hooks have these parameters, and the options and the state of a `state_dict()`; its own come back.

    What is written in place into a tensor of the state stays in it; entries that are replaced, and options, are forgotten.

    Args:
        swapin_parameters: in the order of the optimizer's own.
        swapin_optim_state: like `optimizer.state_dict()`; parameters may lack a state.

    Raises:
        RuntimeError: the optimizer has no state yet, or groups, options, numbers of parameters or keys are others than its own.

    Example:
        >>> import flambeau as fl
        >>> p, q = (fl.ones(1, requires_grad=True) for _ in range(2))
        >>> optimizer = fl.optim.SGD([p], lr=1.0, momentum=0.5)
        >>> p.grad, q.grad = fl.ones(1), fl.ones(1)
        >>> optimizer.step()
        >>> with fl.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, optimizer.state_dict()):
        ...     optimizer.step()
        >>> p.item(), q.item()
        (0.0, -0.5)
    """
    groups, state = _checked(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    swapped: dict[Any, Any] = defaultdict(dict)
    try:
        for group, (options, params) in zip(optimizer.param_groups, groups):
            group.update({**options, "params": params})
            swapped.update((param, dict(state.get(key, {}))) for param, key in zip(params, options["params"]))
        optimizer.state = swapped
        yield
    finally:
        for group, own in zip(optimizer.param_groups, own_groups):
            group.clear()
            group.update(own)
        optimizer.state = own_state


def _checked(optimizer: Optimizer, params: list[Tensor], given: Any) -> tuple[list[tuple[dict[str, Any], list[Tensor]]], dict[Any, Any]]:
    """The options and parameters of each group, and the states by their numbers."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME}: the optimizer has no state; make a step first")
    state, groups = (given.get(key) if isinstance(given, Mapping) else None for key in ("state", "param_groups"))
    if not isinstance(state, dict) or not isinstance(groups, list):
        raise RuntimeError(f"{_NAME}: swapin_optim_state is not what state_dict() returns: a dict 'state' and a list 'param_groups'")
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(f"{_NAME}: {len(groups)} parameter groups; the optimizer has {len(optimizer.param_groups)}")
    found, keys = [], list[Any]()
    for i, (own, options) in enumerate(zip(optimizer.param_groups, groups)):
        if other := sorted(own.keys() ^ options.keys()):
            raise RuntimeError(f"{_NAME}: group {i} has {other} in one of the two alone; expected the options of the optimizer")
        if len(options["params"]) != len(own["params"]):
            raise RuntimeError(f"{_NAME}: group {i} has {len(options['params'])} parameters; in the optimizer {len(own['params'])}")
        if wrong := [key for key in options["params"] if not isinstance(key, int)]:
            raise RuntimeError(f"{_NAME}: group {i} names a parameter {wrong[0]!r}; expected numbers, as in state_dict()")
        found.append((options, params[len(keys) : len(keys) + len(own["params"])]))
        keys += options["params"]
    if len(params) != len(keys):
        raise RuntimeError(f"{_NAME}: {len(params)} parameters; expected the {len(keys)} of the optimizer, in its order")
    if other := [key for key in state if not isinstance(key, int) or key not in keys]:
        raise RuntimeError(f"{_NAME}: the state has {other[0]!r}, which is the number of no parameter")
    if wrong := [key for key, entries in state.items() if not isinstance(entries, dict)]:
        raise RuntimeError(f"{_NAME}: the state of parameter {wrong[0]} is no dict")
    return found, state
