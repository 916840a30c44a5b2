"""`Optimizer`: parameter groups, state, hooks and their state_dict.

What it has made ready for its steps lies in `_plans.py`.

Nothing that an optimizer keeps refers to it, so that parameters, gradients and state go with the last
reference to the optimizer and its model, without the garbage collector.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flambeau import _C, _replay
from flambeau._C import Tensor, ops
from flambeau._C import profiler as _recorder
from flambeau._errors import NoTensorError, WrongLengthError
from flambeau._handles import HookTable, RemovableHandle, put_hook
from flambeau._warn import warn
from flambeau.autograd import enable_grad, no_grad
from flambeau.autograd.backward import zero_gradient
from flambeau.optim._formulas import FORMULAS, step_in_graph
from flambeau.optim._numbers import Numbers, number_tensor
from flambeau.optim._plans import Entries, Plan, Stepped, rounds

R = TypeVar("R")
Own = TypeVar("Own", bound="Optimizer")


class _Required:
    def __repr__(self) -> str:
        return "<required>"


required = _Required()


# Hooks around the steps of every optimizer, beside each one's own.
EVERYWHERE: dict[str, HookTable] = {"_optimizer_step_pre_hooks": HookTable(), "_optimizer_step_post_hooks": HookTable()}


def _of(optimizer: Optimizer, table: str) -> tuple[Callable[..., Any], ...]:
    """The optimizer's own hooks, around which are those of all optimizers."""
    own, shared = getattr(optimizer, table), EVERYWHERE[table]
    if not shared:
        return tuple(own.values()) if own else ()
    return (*shared.values(), *own.values()) if table == "_optimizer_step_pre_hooks" else (*own.values(), *shared.values())


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before each step of every optimizer; args begin with it, and (args, kwargs) may be returned."""
    return _put_everywhere("_optimizer_step_pre_hooks", hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after each step of every optimizer; args begin with it."""
    return _put_everywhere("_optimizer_step_post_hooks", hook)


def _put_everywhere(table: str, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(EVERYWHERE[table])
    EVERYWHERE[table][handle.id] = hook
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if _C.graph.watched() and (self._fl_has_step_hooks() or wrapper is not Optimizer.step):
            _C.graph.interrupt("an optimizer has a step, or hooks of it, in Python")
        if before := _of(self, "_optimizer_step_pre_hooks"):
            for hook in before:
                changed = hook(self, (self, *args), kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        what = type(changed).__name__ + (f" of {len(changed)}" if isinstance(changed, tuple) else "")
                        raise RuntimeError(
                            f"{type(self).__name__}.step: a hook before it returned a {what}; expected None or a tuple (args, kwargs)"
                        )
                    (self, *args), kwargs = changed  # type: ignore[assignment]
        if _recorder.recording():
            token = _recorder.begin(f"Optimizer.step#{type(self).__name__}.step", 2)
            failed = True
            try:
                result = step(self, *args, **kwargs)
                failed = False
            finally:
                _recorder.end(token, failed)
        else:
            result = step(self, *args, **kwargs)
        self._fl_n_steps += 1
        for hook in _of(self, "_optimizer_step_post_hooks"):
            hook(self, (self, *args), kwargs)
        return result

    return wrapper


_split = functools.lru_cache(str.split)


def _own_groups(self: Any) -> Any:
    return self.param_groups


def _set_own_groups(self: Any, groups: Any) -> None:
    self.param_groups = groups


class Optimizer:
    """Base class: a subclass defines `step`; those of this package define `_fl_init_state` and `_fl_update`.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dicts with a 'params' entry
    and options of their own.

    Raises:
        TypeError: `params` is a single tensor, or holds something else.
        ValueError: no parameters, or one that is in two groups or is no leaf.

    Example:
        >>> import flambeau as fl
        >>> w = fl.ones(1, requires_grad=True)
        >>> optimizer = fl.optim.SGD([w], lr=0.5)
        >>> (w * 2).sum().backward()
        >>> isinstance(optimizer, fl.optim.Optimizer)
        True
        >>> optimizer.step()
        >>> w
        tensor([0.], requires_grad=True)

    With `differentiable=True` gradients go through steps: of parameters that are results themselves, of gradients and of learning rates.

        >>> rate = fl.tensor(0.5, requires_grad=True)
        >>> moved = w.clone()
        >>> optimizer = fl.optim.SGD([moved], lr=rate, differentiable=True)
        >>> moved.grad = 3 * w + 2
        >>> optimizer.step()
        >>> moved.sum().backward()
        >>> rate.grad
        tensor(-2.)
    """

    state: dict[Any, dict[str, Any]]
    _fl_sparse_gradients = "refused"  # or "taken", by `_fl_update_sparse`, or "required"
    _fl_instead = "SparseAdam, SGD or Adagrad"
    _fl_scalars: tuple[str, ...] = ()  # what is a tensor of no axes in a parameter's state
    _fl_order = ""  # of the options in `defaults` and in each group, where programs print and compare them

    _fl_completes = False  # groups that miss values, by a __setstate__ of its own

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]
        if "__setstate__" in cls.__dict__:
            cls._fl_completes = True
        if "param_groups" in cls.__dict__:  # as a class that wraps another optimizer does: its methods work on that one's groups
            cls._fl_groups = property(_own_groups, _set_own_groups)  # type: ignore[assignment]

    def __new__(cls: type[Own], *args: Any, **kwargs: Any) -> Own:
        self = super().__new__(cls)
        self._fl_reset_private()  # a class that wraps another optimizer may leave __init__ out
        self._fl_fresh = True  # type: ignore[attr-defined]
        return self

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if order := self._fl_order:
            defaults = {**{name: defaults[name] for name in _split(order) if name in defaults}, **defaults}
        self.defaults = defaults
        self.state = defaultdict(dict)
        self._fl_groups: list[dict[str, Any]] = []
        if not self.__dict__.pop("_fl_fresh", False):
            self._fl_reset_private()
        if type(params) is not list and isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got one Tensor ({params.dtype} {list(params.shape)}); wrap it: [param]"
            )
        if type(params) is not list and (not isinstance(params, Iterable) or isinstance(params, str)):
            way = "; pass its parameters()" if hasattr(params, "parameters") else ""
            raise TypeError(
                f"{type(self).__name__}: params is a {type(params).__name__}; expected an iterable "
                f"of Tensors or dicts{way}"
            )
        groups = list(params)
        if not groups:
            raise ValueError(
                f"{type(self).__name__}: got an empty parameter list; a model whose layers are in "
                "an ordinary list or dict has no parameters (use nn.ModuleList or nn.ModuleDict)"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups: dicts of options, with the parameters under 'params'."""
        if _C.graph.watched():
            _C.graph.interrupt("the options of an optimizer were looked at")
        return self._fl_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._fl_groups = groups

    def _fl_reset_private(self) -> None:
        self._fl_stepped: Stepped | None = None  # in a step that may be replayed
        self._fl_plans: dict[tuple[int, int], Plan] = {}  # by group and round
        self._fl_numbers: dict[tuple[tuple[int, int], str], Numbers] = {}  # by group and round, and name
        self._fl_n_steps = 0
        self._optimizer_step_pre_hooks = HookTable()
        self._optimizer_step_post_hooks = HookTable()
        self._optimizer_state_dict_pre_hooks = HookTable()
        self._optimizer_state_dict_post_hooks = HookTable()
        self._optimizer_load_state_dict_pre_hooks = HookTable()
        self._optimizer_load_state_dict_post_hooks = HookTable()

    def _fl_has_step_hooks(self) -> bool:
        return bool(_of(self, "_optimizer_step_pre_hooks") or _of(self, "_optimizer_step_post_hooks"))

    @staticmethod
    def profile_hook_step(func: Callable[..., R]) -> Callable[..., R]:
        """The function as it is: every `step` of a class has hooks already, and is seen by a profile."""
        return func

    def _patch_step_function(self) -> None:
        """What a class that wraps another optimizer calls in PyTorch to have its `step` run hooks: `__init_subclass__` has seen to it."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self._fl_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._fl_groups = state.pop("param_groups")
        self.__dict__.update(state)
        self.state = defaultdict(dict, self.state)
        self._fl_plans.clear()
        self._fl_numbers.clear()
        if not self._fl_completes:  # the class's own method sees what is missing, and completes groups its way
            self._fl_set_defaults()
        self._fl_set_scalars()

    def _fl_set_scalars(self) -> None:
        """States may be older than their being tensors, or come from elsewhere."""
        for entries in self.state.values():
            if not isinstance(entries, dict):  # of no parameter
                continue
            for name in self._fl_scalars:
                if name in entries:
                    entries[name] = number_tensor(entries[name])

    def _fl_set_defaults(self) -> None:
        for group in self._fl_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self._fl_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # -------------------------------------------------------------------------------------- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own, for example layers that were frozen before.

        Raises:
            TypeError: not a dict, or parameters that are no tensors or come as a set.
            ValueError: a parameter that is no leaf or is in another group, or an option that is
                required and missing, or parameters with names where those of other groups have none.

        Warns:
            UserWarning: a parameter stands twice in the group; every step then moves it twice.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"add_param_group: param_group must be a dict, but got {type(param_group)}")
        if "params" not in param_group:
            have = ", ".join(map(repr, param_group)) or "no entries"
            raise KeyError(f"{type(self).__name__}: a group has {have}; expected 'params' among them")
        params = param_group["params"]
        if type(params) is list:
            pass
        elif isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "add_param_group: optimizer parameters need to be organized in ordered collections, but params is a set, "
                "whose order is not fixed; pass a list"
            )
        elif not isinstance(params, Iterable):
            raise TypeError(f"add_param_group: params is a {type(params).__name__}; expected a Tensor or an iterable of some")
        params = list(params)
        named = bool(params) and isinstance(params[0], tuple)
        if self._fl_groups and named is not ("param_names" in self._fl_groups[0]) and "param_names" not in param_group:
            have = "names" if not named else "no names"
            raise ValueError(
                f"{type(self).__name__}: this group's parameters come {'with' if named else 'without'} names, those of the first group "
                f"have {have}; expected all groups with names, or all without"
            )
        for param in params:
            if isinstance(param, tuple) is not named:
                kind = type(self).__name__
                raise ValueError(
                    f"{kind}: all optimizer params should be with/without names; in a group some have names and some have none"
                )
        if named:
            param_group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        param_group["params"] = params
        known = {id(p) for group in self._fl_groups for p in group["params"]} if self._fl_groups else set()
        own: set[int] = set()
        for i, param in enumerate(params):
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"{type(self).__name__}: optimizer can only optimize Tensors, but one of the params is {type(param).__name__}: "
                    f"parameter {i}"
                )
            if not (param.is_leaf or self.defaults.get("differentiable") or param.retains_grad):
                raise ValueError(
                    f"{type(self).__name__}: can't optimize a non-leaf Tensor: parameter {i} (shape {list(param.shape)}) is the "
                    "result of an operation (compute first, then requires_grad_())"
                )
            key = id(param)
            if key in known:
                raise ValueError(
                    f"{type(self).__name__}: some parameters appear in more than one parameter group: "
                    f"parameter {i} (shape {list(param.shape)})"
                )
            if key in own:
                warn(
                    f"{type(self).__name__}: parameter {i} (shape {list(param.shape)}) appears twice in "
                    "a group; every step moves it twice"
                )
            own.add(key)
        for name, default in self.defaults.items():
            if name in param_group:
                continue
            if default is required:
                raise ValueError(
                    f"{type(self).__name__}: a parameter group lacks the option '{name}'"
                )
            param_group[name] = default
        self._fl_groups.append(param_group)
        self._fl_plans.clear()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, or with `set_to_none=False` fills them with zeros."""
        name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        token = _recorder.begin(name, 2) if _recorder.recording() else None
        for group in self._fl_groups:
            for param in group["params"]:
                zero_gradient(param, set_to_none)
        if token is not None:
            _recorder.end(token, False)

    # ---------------------------------------------------------------------------------------- step

    @overload
    def step(self, closure: None = ...) -> None: ...

    @overload
    def step(self, closure: Callable[[], R]) -> R: ...

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves the parameters along their gradients; `closure` recomputes the loss first."""
        own = (Optimizer._fl_update, Optimizer._fl_update_sparse, Optimizer._fl_step_over)
        if (type(self)._fl_update, type(self)._fl_update_sparse, type(self)._fl_step_over) == own:
            raise NotImplementedError(f"{type(self).__name__} has no step(): define it")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if _C.graph.watched():
            self._fl_stepped = Stepped(self)
            _replay.noted().append(self._fl_stepped)
        try:
            # All gradients are looked at before anything is moved.
            for work in [
                self._fl_gathered((i, k), group, params)
                for i, group in enumerate(self._fl_groups)
                for k, params in enumerate(rounds(group["params"]))
            ]:
                self._fl_step_over(*work)
        finally:
            self._fl_stepped = None
        return loss

    if not TYPE_CHECKING:
        step = _with_hooks(step)

    def _fl_gathered(self, key: tuple[int, int], group: Entries, params: list[Tensor]) -> tuple[Any, ...]:
        """What `_fl_step_over` is called with; raises for gradients that the optimizer does not take."""
        grads = [param.grad for param in params]
        sparse = _C.first_sparse(grads)
        if self._fl_sparse_gradients == "refused" and sparse >= 0:
            advice = f"does not support sparse gradients, please consider {self._fl_instead} instead"
            self._fl_refuse(key, sparse, grads, "is sparse", advice)
        if self._fl_sparse_gradients == "required":
            for i, grad in enumerate(grads):
                if grad is not None and not grad.is_sparse:
                    self._fl_refuse(key, i, grads, "is dense", "does not support dense gradients, please consider Adam instead")
        if sparse >= 0 and group.get("weight_decay", 0):
            decay = f"weight_decay = {group['weight_decay']}, which is not compatible with sparse gradients"
            self._fl_refuse(key, sparse, grads, f"is sparse, but {decay}", "would have to move all rows at each step; use weight_decay=0")
        return key, group, params, grads, sparse >= 0

    def _fl_refuse(self, key: tuple[int, int], i: int, grads: list[Any], what: str, why: str) -> None:
        name = type(self).__name__
        raise RuntimeError(f"{name}: the gradient of parameter {i} of group {key[0]} (shape {list(grads[i].shape)}) {what}; {name} {why}")

    def _fl_share(self, param: Tensor, entries: Entries) -> None:
        """A rule that keeps nothing of a parameter leaves no entry."""
        if entries:
            self.state[param] = entries

    def _fl_step_in_graph(self, key: tuple[int, int], group: Entries, params: list[Tensor], grads: list[Any], sparse: bool) -> None:
        if sparse:
            self._fl_refuse(key, _C.first_sparse(grads), grads, "is sparse", "with differentiable=True takes dense gradients")
        if self._fl_stepped:
            _C.graph.interrupt("an optimizer's step is differentiable")
        with enable_grad():
            self._fl_step_by_ops(group, params, grads)

    def _fl_step_by_ops(self, group: Entries, params: list[Tensor], grads: list[Any]) -> None:
        name = next((kind.__name__ for kind in type(self).__mro__ if kind.__name__ in FORMULAS), "")
        if not name:
            why = "it steps over memory, and a parameter or its gradient has none (__torch_dispatch__ of its class)"
            raise NotImplementedError(f"{type(self).__name__}: {why}")
        for param, grad in zip(params, grads, strict=True):
            if grad is not None:
                entries = self.state.get(param, {})
                self._fl_init_state(group, param, entries)
                step_in_graph(name, group, param, grad, entries)
                self._fl_share(param, entries)

    def _fl_step_over(self, key: tuple[int, int], group: Entries, params: list[Tensor], grads: list[Any], sparse: bool) -> None:
        if group.get("differentiable"):
            self._fl_step_in_graph(key, group, params, grads, sparse)
            return
        if _C.graph.any_hollow(params) or _C.graph.any_hollow(grads):  # what steps by ops steps over these, too
            with no_grad():
                self._fl_step_by_ops(group, params, grads)
            return
        if sparse:
            if self._fl_stepped:
                _C.graph.interrupt("an optimizer steps over a sparse gradient in Python")
            with no_grad():
                for param, grad in zip(params, grads, strict=True):
                    if grad is not None and grad.is_sparse:
                        self._fl_update_sparse(group, param, entries := self.state.get(param, {}), grad)
                        self._fl_share(param, entries)
            grads = [None if grad is None or grad.is_sparse else grad for grad in grads]
        mask = [grad is not None for grad in grads]
        plan = self._fl_plans.get(key)
        if plan is None or plan._group is not group or not plan.fits(params, mask, self.state):
            plan = self._fl_plans[key] = Plan(self, group, list(params), mask)
            plan.key = key
        if plan.params:
            self._fl_update(group, plan, [grad for grad in grads if grad is not None])
            if self._fl_stepped and not (key[1] == 0 and self._fl_stepped.has(plan)):
                _C.graph.interrupt("an optimizer's step is not one op")

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        """Puts the missing entries into a parameter's state."""

    def _fl_update_sparse(self, group: Entries, param: Tensor, state: Entries, grad: Any) -> None:
        """Does one step over a parameter whose gradient is sparse."""
        raise NotImplementedError(f"{type(self).__name__} does not define _fl_update_sparse()")

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        """Does one fused step over the parameters of a plan."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    # --------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Returns {'state': {index: {...}}, 'param_groups': [...]} with parameters by position; of two places of one the last."""
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        index: dict[int, int] = {}
        groups, n = [], 0
        for group in self._fl_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            index.update({id(param): i for i, param in enumerate(group["params"], n) if id(param) not in index})
            n += len(group["params"])
            packed["params"] = [index[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {(index[id(key)] if isinstance(key, Tensor) else key): value for key, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a state_dict; parameters are matched by position.

        State tensors of parameters are copied, in lists and dicts too, and, but for 'step', cast to their parameter's dtype and
        device. What the state holds under other keys is taken as it is.

        Raises:
            ValueError: the number of groups or of parameters in a group differs.
        """
        if not isinstance(state_dict, Mapping):
            raise NoTensorError(f"{type(self).__name__}.load_state_dict: state_dict is a {type(state_dict).__name__}; expected a dict")
        state_dict = dict(state_dict)
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        if missing := [key for key in ("param_groups", "state") if key not in state_dict]:
            raise KeyError(f"{type(self).__name__}.load_state_dict: state_dict has no '{missing[0]}'; expected what state_dict() returns")
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self._fl_groups):
            raise ValueError(
                f"load_state_dict: loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, the optimizer {len(self._fl_groups)}"
            )
        by_index: dict[Any, Tensor] = {}
        for i, (mine, saved) in enumerate(zip(self._fl_groups, saved_groups)):
            if len(mine["params"]) != len(saved["params"]):
                raise ValueError(
                    f"load_state_dict: loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"group {i} has {len(saved['params'])} parameters in the state, {len(mine['params'])} in the optimizer"
                )
            by_index.update(zip(saved["params"], mine["params"]))
        state: dict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = by_index.get(key)
            if param is None:
                state[key] = value
            else:
                state[param] = _cast(param, key, value)
        for mine, saved in zip(self._fl_groups, saved_groups):
            saved["params"] = mine["params"]
            if "param_names" in mine:
                saved.setdefault("param_names", mine["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})  # classes complete groups of older versions there
        self._fl_set_defaults()  # what they left
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    # --------------------------------------------------------------------------------------- hooks

    @staticmethod
    def _fl_put(table: HookTable, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        return put_hook(table, hook, prepend)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; args begin with the optimizer, and the hook may return (args, kwargs)."""
        return self._fl_put(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step; args begin with the optimizer."""
        return self._fl_put(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict`."""
        return self._fl_put(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)`; it may return another dict."""
        return self._fl_put(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)`; it may return another dict."""
        return self._fl_put(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer)` after `load_state_dict`."""
        return self._fl_put(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def set_option(group: Entries, name: str, value: float) -> None:
    """Writes an option of a group: into the tensor, where the user gave one and may hold it."""
    if isinstance(group[name], Tensor):
        with no_grad():
            group[name].fill_(float(value))
    else:
        group[name] = value


def _cast(param: Tensor, name: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        if name != "step" and value.is_floating_point() and param.is_floating_point():
            value = value.to(device=param.device, dtype=param.dtype)
        return value.detach().clone()
    if isinstance(value, dict):  # keys stay the objects that they are: they may be parameters
        return {key: _cast(param, key, entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(param, name, entry) for entry in value)
    return deepcopy(value)


# What PyTorch calls options in its errors; the others are their names.
_WORDS = {"lr": "learning rate", "eps": "epsilon value"}


def non_negative(name: str, **values: Any) -> dict[str, Any]:
    """The options as they are; a ValueError names the first one that is negative."""
    for key, value in values.items():
        if not checked_number(name, key, value) >= 0.0:
            what = _WORDS.get(key) or f"{key} value"
            raise ValueError(f"{name}: Invalid {what}: {value}; expected {key} >= 0")
    return values


def checked_number(name: str, key: str, value: Any) -> float:
    """An option as a float; a TypeError names it where it is no number (a str is none, even if it reads as one)."""
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except TypeError:
            pass
    raise TypeError(f"{name}: {key} = {value!r} is a {type(value).__name__}; expected a number")


def checked_pair(name: str, key: str, values: Any) -> tuple[Any, Any]:
    """An option of two values as a tuple; an error names it where it is something else."""
    if isinstance(values, str) or not (hasattr(values, "__len__") and hasattr(values, "__iter__")):
        raise TypeError(f"{name}: {key} = {values!r} is a {type(values).__name__}; expected a tuple of two numbers")
    if len(values) != 2:
        raise WrongLengthError(f"{name}: {key} = {values!r}; expected two numbers")
    return tuple(values)


def decay_rates(name: str, betas: tuple[float, float]) -> tuple[float, ...]:
    """The betas as a tuple; a ValueError names the first one that is not in [0, 1)."""
    for i, beta in enumerate(checked_pair(name, "betas", betas)):
        if not 0.0 <= checked_number(name, f"betas[{i}]", beta) < 1.0:
            raise ValueError(f"{name}: Invalid beta parameter at index {i}: {beta}; expected 0 <= betas[{i}] < 1")
    return tuple(betas)


def start_state(param: Tensor, state: Entries, *names: str, **numbers: float) -> None:
    """Puts step 0, the numbers, and zeros like the parameter under `names`, where they are missing."""
    if "step" not in state:
        state["step"] = number_tensor(0)
    for name, value in numbers.items():
        if name not in state:
            state[name] = number_tensor(value)
    for name in names:
        if name not in state:
            state[name] = ops.zeros_like(param.detach())


def filled_like(param: Tensor, value: float) -> Tensor:
    """A state like the parameter; of complex ones both parts start at the value, since they move each on their own."""
    return ops.full_like(param.detach(), complex(value, value) if param.is_complex() else value)


def advance(state: Entries) -> int:
    """Adds one to the 'step' of one state and returns it."""
    step = int(state["step"]) + 1
    if isinstance(state["step"], Tensor):
        state["step"].fill_(step)
    else:
        state["step"] = step
    return step


def check_hints(name: str, **hints: bool | None) -> dict[str, Any]:
    """Options of a group: `foreach`, `fused` and `capturable` are hints and change nothing, `differentiable` wants a formula."""
    if hints.get("fused") and hints.get("foreach"):
        raise RuntimeError(f"{name}: `fused` and `foreach` cannot be `True` together")
    if hints.get("differentiable"):
        if hints.get("fused"):
            raise RuntimeError(f"{name}: `fused` does not support `differentiable`; expected one of them at most")
        if name not in FORMULAS:
            have = ", ".join(FORMULAS)
            raise ValueError(f"{name}: differentiable = True; expected False, or one of {have}, whose steps gradients go through")
    return hints


Params = Iterable[Any]
