"""Schedules of the rate and, the other way round, of the momentum; they step after every batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau._errors import RefusedTypeError
from flambeau.optim.lr_scheduler._base import (
    LRScheduler,
    _warn_get_lr_called_within_step,
    attached,
    is_plain,
)
from flambeau.optim.optimizer import Optimizer, set_option


def _per_group(scheduler: str, name: str, value: Any, n: int) -> list[float]:
    """`value` for each of `n` groups: itself, or one that is given for each."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(f"{scheduler}: {name} must have the same length as optimizer.param_groups, {n}, got {len(value)} values")
    return list(value)


def _set_momentum(group: dict[str, Any], value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _has_betas(scheduler: str, optimizer: Optimizer) -> bool:
    """Is the momentum the first of `betas`? Refuses optimizers that have none."""
    if not ("momentum" in optimizer.defaults or "betas" in optimizer.defaults):
        raise ValueError(
            f"{scheduler}: {type(optimizer).__name__} has no momentum; pass cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def _phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """A part of a cycle: its last step, and names of the entries of groups between which it moves."""
    return {"end_step": end_step, "start_lr": start_lr, "end_lr": end_lr, "start_momentum": start_momentum, "end_momentum": end_momentum}


def _check_count(what: str, n: Any) -> None:
    if not isinstance(n, int):
        raise RefusedTypeError(f"OneCycleLR: Expected positive integer {what}, but got {n!r}, a {type(n).__name__}")
    if n <= 0:
        raise ValueError(f"OneCycleLR: Expected positive integer {what}, but got {n}")


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to initial / final_div_factor.

    Call `step` after every batch.

    Raises:
        ValueError: no total, or more steps than the cycle has.

    Source: Smith and Topin 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: You must define either total_steps OR (epochs AND steps_per_epoch)")
            for what, n in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                _check_count(what, n)
            total_steps = epochs * steps_per_epoch
        else:
            _check_count("total_steps", total_steps)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.optimizer = attached(self, optimizer)
        self.total_steps = total_steps
        up = float(pct_start * total_steps) - 1
        end = total_steps - 1
        rise = _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three_phase:
            fall = _phase(2 * up, "max_lr", "initial_lr", "base_momentum", "max_momentum")
            self._schedule_phases = [rise, fall, _phase(end, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._schedule_phases = [rise, _phase(end, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, peak in zip(groups, _per_group("OneCycleLR", "max_lr", max_lr, len(groups))):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = _has_betas("OneCycleLR", optimizer)
            if last_epoch == -1:
                lows = _per_group("OneCycleLR", "base_momentum", base_momentum, len(groups))
                highs = _per_group("OneCycleLR", "max_momentum", max_momentum, len(groups))
                for group, low, high in zip(groups, lows, highs):
                    _set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _fl_anneal(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    share = (step - start) / (end - start)
                    rates.append(self._fl_anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
                    if self.cycle_momentum:
                        _set_momentum(group, self._fl_anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share))
                    break
                start = end
        return rates


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr and down again, over and over; momentum goes the other way.

    Call `step` after every batch.

    Args:
        mode: 'triangular'; 'triangular2', which halves the height with every cycle; or
            'exp_range', which multiplies it by gamma with every step.
        scale_fn: a function of the cycle's number (from 1) or, with scale_mode 'iterations', of
            the step's (from 0), that the height is multiplied by; replaces `mode`.

    Raises:
        ValueError: an unknown mode, or `cycle_momentum` with an optimizer that has none.

    Source: Smith 2017, "Cyclical Learning Rates for Training Neural Networks".
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        modes = ("triangular", "triangular2", "exp_range")
        if scale_fn is None and mode not in modes:
            raise ValueError(f"CyclicLR: mode is invalid and scale_fn is None: mode = {mode!r}; expected one of {', '.join(modes)}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(
                f"CyclicLR: scale_mode = {scale_mode!r}; expected 'cycle' or 'iterations'"
            )
        self.optimizer = attached(self, optimizer)
        groups = optimizer.param_groups
        base_lrs = _per_group("CyclicLR", "base_lr", base_lr, len(groups))
        self.max_lrs = _per_group("CyclicLR", "max_lr", max_lr, len(groups))
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, lr in zip(groups, base_lrs):
                set_option(group, "lr", lr)
        if cycle_momentum:
            self.use_beta1 = _has_betas("CyclicLR", optimizer)
            lows = _per_group("CyclicLR", "base_momentum", base_momentum, len(groups))
            highs = _per_group("CyclicLR", "max_momentum", max_momentum, len(groups))
            self.base_momentums, self.max_momentums = lows, highs
            if last_epoch == -1:
                for group, low, high in zip(groups, lows, highs):
                    _set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """What the height of the cycle is multiplied by."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return float(0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in bounds:
                _set_momentum(group, high - (high - low) * height * scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """As the base class; a function is left out, a callable object saves its attributes."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if fn is None or is_plain(fn) else dict(fn.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom")
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self.__dict__.update(state)
