"""What all schedules share."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau._warn import warn
from flambeau.optim.optimizer import Optimizer, set_option


def values_of(optimizer: Optimizer, name: str) -> list[Any]:
    """An option of each group, such as its rate: numbers as they are, tensors as copies."""
    return _values(optimizer.param_groups, name)


def _values(groups: list[dict[str, Any]], name: str) -> list[Any]:
    return [value.clone() if isinstance(value := group[name], Tensor) else value for group in groups]


def attached(scheduler: Any, optimizer: Any) -> Optimizer:
    """The optimizer as it is; a TypeError where it is none."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(scheduler).__name__}: {type(optimizer).__name__} is not an Optimizer")
    return optimizer


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    """Says to who calls `get_lr` outside of `step` that its rates may be those of no step. Schedules of programs import it."""
    if not lr_scheduler._get_lr_called_within_step:
        warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")


class LRScheduler:
    """Base class; a subclass defines `get_lr`.

    Raises:
        TypeError: the first argument is no Optimizer.
        KeyError: resuming (`last_epoch` >= 0) without 'initial_lr' in the groups.
    """

    # Looked at by schedules that programs write: is it `step` that calls `get_lr`, and the constructor that calls `step`?
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = attached(self, optimizer)
        # The rates that a schedule begins with stay in the groups, for those that come later.
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                if "initial_lr" not in group:
                    (group["initial_lr"],) = _values([group], "lr")
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler "
                    f"with last_epoch = {last_epoch} >= 0"
                )
        self.base_lrs: list[Any] = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._fl_steps_before = optimizer._fl_n_steps
        self._fl_step_before = vars(optimizer).get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Returns everything but the optimizer."""
        state = self.__dict__.copy()
        for name in ("optimizer", "_fl_steps_before", "_fl_step_before"):
            state.pop(name, None)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"{type(self).__name__}.load_state_dict: state_dict is a {type(state_dict).__name__}; expected a dict")
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates of the groups after the last step: numbers, or copies where the rates are tensors."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Computes the rates for `last_epoch` from the present ones."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    @property
    def _fl_lrs(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch (or to `epoch`) and writes the rates."""
        if self._step_count == 1 and vars(self.optimizer).get("step") is not self._fl_step_before:
            warn(
                f"Seems like `optimizer.step()` has been overridden after {type(self).__name__} was made, which can not tell whether it is "
                "called before `lr_scheduler.step()`; see that it is"
            )
        elif self._step_count == 1 and self.optimizer._fl_n_steps == self._fl_steps_before:
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. "
                f"The first value of the schedule ({type(self).__name__}) is skipped; call optimizer.step() first"
            )
        self._step_count += 1
        if epoch is not None:
            warn(f"{type(self).__name__}.step(epoch) is deprecated: the schedule counts its steps itself; call step() once for each epoch")
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """What a step does, without being counted as one."""
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed()
        finally:
            self._get_lr_called_within_step = False
        self._fl_write(values)

    def _fl_write(self, values: Sequence[Any]) -> None:
        groups = self.optimizer.param_groups
        if len(values) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: {len(values)} rates for {len(groups)} parameter groups; a group that was added after the schedule "
                "was made has none: add it before, or make the schedule anew"
            )
        for group, lr in zip(groups, values):
            set_option(group, "lr", lr)
        self._last_lr = _values(groups, "lr")


class _LRScheduler(LRScheduler):
    """The older name, for classes that are derived from it. Schedules of this module are none of it."""


def is_plain(fn: Any) -> bool:
    """True for functions, whose attributes no state holds; other callable objects save theirs."""
    return isinstance(fn, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
