"""Modules as functions of their parameters."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from flambeau._C import ArgumentError, Tensor, graph, ops
from flambeau._errors import RefusedTypeError
from flambeau._no_tensor import wants_tensors
from flambeau.nn.module import Module
from flambeau.nn.modules.norm import _BatchNorm

Tensors = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other tensors in the places of its parameters and buffers, which stay as they are.

    Args:
        parameter_and_buffer_dicts: path -> tensor, or several such dicts. A name that a module on the way does not have is an
            attribute of it during the call. A buffer that the call puts another tensor in the place of (`self.count = self.count + 1`)
            is that tensor in the dict afterwards, where there is one dict.
        args: the call's positional arguments: a tuple, or the only one.
        tie_weights: a parameter that the module has under several paths is replaced under all of them.
        strict: every parameter and buffer has to be given, and nothing else.

    Raises:
        TypeError: a value that is no tensor, or the place of one that is none.
        ValueError: one path in two of the dicts; two tensors for what is tied.
        RuntimeError: a path through modules that are not there; with `strict` any that the module does not have, or that is missing.

    Example:
        >>> import flambeau as fl
        >>> layer = fl.nn.Linear(2, 1)
        >>> fl.func.functional_call(layer, {"weight": fl.ones(1, 2), "bias": fl.zeros(1)}, fl.tensor([1.0, 2.0]))
        tensor([3.])
    """
    if not isinstance(module, Module):
        raise TypeError(f"functional_call: module is a {type(module).__name__}; expected a Module")
    given: Tensors = {}
    one_or_more = parameter_and_buffer_dicts
    if not isinstance(one_or_more, (Mapping, tuple, list)):
        kind = type(one_or_more).__name__
        raise RefusedTypeError(f"functional_call: parameter_and_buffer_dicts is a {kind}; expected a dict of tensors, or several")
    if isinstance(one_or_more, Mapping):
        given, one_or_more = one_or_more, ()
    for i, tensors in enumerate(one_or_more):
        if not isinstance(tensors, Mapping):
            kind = type(tensors).__name__
            raise RefusedTypeError(f"functional_call: parameter_and_buffer_dicts[{i}] is a {kind}; expected a dict of tensors")
        if twice := sorted(given.keys() & tensors.keys()):
            raise ValueError(f"functional_call: '{twice[0]}' is in two of the dicts; expected each path once")
        given = {**given, **tensors}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _extra_place(module: Module, path: str) -> tuple[Module, str] | None:
    """Where a tensor goes that is no parameter or buffer: an attribute of the module at that path, or of one below; None without one.

    Raises:
        TypeError: the attribute is there and no tensor.
    """
    owner, _, key = path.rpartition(".")
    try:
        part = module.get_submodule(owner)
    except AttributeError:
        return None
    value = getattr(part, key, None)
    if value is not None and not isinstance(value, Tensor):
        kind = type(value).__name__
        raise TypeError(f"functional_call: '{path}' is a {kind} of the module; expected a parameter, a buffer or another tensor")
    return part, key


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """A region in which a module has other tensors in the places of its parameters and buffers: see `functional_call`."""
    given = parameters_and_buffers
    places = {
        f"{prefix}.{key}" if prefix else key: (table, key)
        for prefix, part in module.named_modules(remove_duplicate=False)
        for table in (part._parameters, part._buffers)
        for key in table
        if table[key] is not None
    }
    for path, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"functional_call: '{path}' is a {type(tensor).__name__}; expected a Tensor")
    surplus, missing = sorted(given.keys() - places.keys()), sorted(places.keys() - given.keys())
    tied: dict[int, list[str]] = {}
    for path, (table, key) in places.items():
        tied.setdefault(id(table[key]), []).append(path)
    wanted = dict(given)
    if tie_weights:
        for group in tied.values():
            values = {id(given[path]): given[path] for path in group if path in given}
            if len(values) > 1:
                names = " and ".join(group)
                raise ValueError(f"functional_call: {names} are one tensor of the module, but get different ones; pass tie_weights=False")
            for value in values.values():
                wanted.update(dict.fromkeys(group, value))
        missing = [path for path in missing if path not in wanted]
    extras = {path: at for path in surplus if not strict and (at := _extra_place(module, path)) is not None}
    surplus = [path for path in surplus if path not in extras]
    if surplus or (strict and missing):
        lines = [
            f"\n\t{kind} key(s): {', '.join(map(repr, paths))}."
            for kind, paths in (("Unexpected", surplus), ("Missing", missing if strict else [])) if paths
        ]  # fmt: skip
        raise RuntimeError(f"functional_call: Error(s) in reparametrizing for {type(module).__name__}:{''.join(lines)}")
    # What was is put back by one call of a function in C: Ctrl-C comes before or after it.
    undo: list[Any] = [functools.partial(graph.objects_changed)]  # compiled functions hear of it, as from Table
    for path in wanted:
        table, key = places[path] if path not in extras else (extras[path][0].__dict__, extras[path][1])
        if key in table:
            undo.append(functools.partial(dict.__setitem__, table, key, table[key]))
        else:
            undo.append(functools.partial(dict.pop, table, key, None))
    undone = map(functools.partial.__call__, undo)
    try:
        for path, tensor in wanted.items():
            if path in extras:
                object.__setattr__(*extras[path], tensor)
            else:
                table, key = places[path]
                table[key] = tensor
        yield
        if isinstance(given, MutableMapping):  # the call may have made other tensors of some
            for path, (table, key) in places.items():
                if path in given and table.get(key) is not given[path] and isinstance(table.get(key), Tensor):
                    given[path] = table[key]
    finally:
        collections.deque(undone, maxlen=0)


@wants_tensors
def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one kind, each stacked along a new first axis, for `vmap` over models.

    Returns:
        (parameters, buffers): path -> tensor [models, *shape]. Parameters are leaves, and require grad if the models' do.

    Raises:
        ValueError: no models, some in training and others not, or parameters of which only some require grad.
        TypeError: models of different classes.

    Example:
        >>> import flambeau as fl
        >>> models = [fl.nn.Linear(2, 3) for _ in range(4)]
        >>> parameters, buffers = fl.func.stack_module_state(models)
        >>> parameters["weight"].shape
        flambeau.Size([4, 3, 2])
    """
    if not models:
        raise ArgumentError("stack_module_state: Expected at least one model, got 0")
    kinds = sorted({type(m).__name__ for m in models})
    if len({type(m) for m in models}) > 1:
        raise RefusedTypeError(f"stack_module_state: Expected all models to be of the same class, got {', '.join(kinds)}")
    if len({m.training for m in models}) > 1:
        raise ArgumentError("stack_module_state: some models are in training and others are not; call train() or eval() on all of them")
    return _stacked([dict(m.named_parameters()) for m in models]), _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
    out = {}
    for path in states[0]:
        column = [state[path] for state in states]
        wants = {x.requires_grad for x in column}
        if len(wants) > 1:
            raise ArgumentError(f"stack_module_state: '{path}' requires grad in some models and not in others; expected the same in all")
        stacked = ops.stack([x.detach() for x in column])
        out[path] = stacked.requires_grad_() if wants == {True} else stacked
    return out


@wants_tensors
def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Takes the running statistics from all batch norms in `root`, which transformations can not write: each goes by its batch.

    Example:
        >>> import flambeau as fl
        >>> norm = fl.func.replace_all_batch_norm_modules_(fl.nn.BatchNorm1d(2))
        >>> norm.running_mean is None, norm.track_running_stats
        (True, False)
    """
    for layer in root.modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats:
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None
            layer.track_running_stats = False
    return root
