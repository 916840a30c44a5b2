"""What all schedules share."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from flambeau._warn import warn
from flambeau.optim.optimizer import Optimizer, set_option


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
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(self).__name__}: optimizer is a {type(optimizer).__name__}; expected an "
                "Optimizer"
            )
        self.optimizer = optimizer
        self._note_rates(optimizer, last_epoch)
        self.last_epoch = last_epoch
        self._step_count = 0
        self._start()

    def _note_rates(self, optimizer: Optimizer, last_epoch: int) -> None:
        """The rates that a schedule begins with stay in the groups, for those that come later."""
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param_groups[{i}] has no 'initial_lr', which "
                    "resuming at "
                    f"last_epoch = {last_epoch} needs"
                )
        self.base_lrs: list[float] = [g["initial_lr"] for g in optimizer.param_groups]

    def _start(self) -> None:
        self._steps_before = self.optimizer._n_steps
        self._initial_step()

    def _initial_step(self) -> None:
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Returns everything but the optimizer."""
        return {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("optimizer", "_steps_before")
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates of the groups after the last step."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Computes the rates for `last_epoch` from the present ones."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    @property
    def _lrs(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch (or to `epoch`) and writes the rates."""
        if self._step_count == 1 and self.optimizer._n_steps == self._steps_before:
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. "
                f"The first value of the schedule ({type(self).__name__}) is skipped; call optimizer.step() first"
            )
        if epoch is not None:
            warn(f"{type(self).__name__}.step(epoch) is deprecated: the schedule counts its steps itself; call step() once for each epoch")
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        self._step_count += 1
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
        self._write(values)

    def _write(self, values: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        if len(values) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: {len(values)} rates for {len(groups)} parameter groups; a group that was added after the schedule "
                "was made has none: add it before, or make the schedule anew"
            )
        for group, lr in zip(groups, values):
            set_option(group, "lr", lr)
        self._last_lr = self._lrs


_LRScheduler = LRScheduler  # the older name


def is_plain(fn: Any) -> bool:
    """True for functions, whose attributes no state holds; other callable objects save theirs."""
    return isinstance(fn, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
