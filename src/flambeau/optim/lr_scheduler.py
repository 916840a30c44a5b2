"""Learning-rate schedules.

A scheduler writes `lr` into the optimizer's groups when `step()` is called, once per epoch or per
batch. Those with a closed form that multiplies are written as a factor on the present rate, so that
several schedulers on one optimizer compose.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.optim.optimizer import Optimizer


class LRScheduler:
    """Base class; a subclass defines `get_lr`.

    Raises:
        TypeError: the first argument is no Optimizer.
        KeyError: resuming (`last_epoch` >= 0) without 'initial_lr' in the groups.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(self).__name__}: optimizer is a {type(optimizer).__name__}; expected an "
                "Optimizer"
            )
        self.optimizer = optimizer
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
        self.last_epoch = last_epoch
        self._step_count = 0
        self._start()

    def _start(self) -> None:
        self._steps_before = self.optimizer._n_steps
        self.step()

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
            warnings.warn(
                f"{type(self).__name__}.step() came before the first optimizer.step(), so the "
                "first "
                "value of the schedule is skipped; call optimizer.step() first",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", self.get_lr)
            values = closed()
        self._write(values)

    def _write(self, values: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values):
            group["lr"] = lr
        self._last_lr = self._lrs


_LRScheduler = LRScheduler  # the older name


def _check_schedulers(name: str, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
    for i, scheduler in enumerate(schedulers):
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name}: scheduler {i} is a ReduceLROnPlateau, whose step() wants a metric; step it "
                "by itself"
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name}: scheduler {i} belongs to another optimizer")


def _is_plain(fn: Any) -> bool:
    return isinstance(fn, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))


class LambdaLR(LRScheduler):
    """lr = initial lr * lr_lambda(epoch)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        n = len(optimizer.param_groups)
        lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n
        if len(lambdas) != n:
            raise ValueError(
                f"{type(self).__name__}: {len(lambdas)} functions for {n} parameter groups"
            )
        self.lr_lambdas: list[Callable[[int], float]] = lambdas
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the base class; functions are left out, callable objects save their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if _is_plain(fn) else dict(fn.__dict__) for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        for fn, saved in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if saved is not None:
                fn.__dict__.update(saved)
        self.__dict__.update(state)

    def get_lr(self) -> list[float]:
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    """lr <- lr * lr_lambda(epoch)."""

    def get_lr(self) -> list[float]:
        if self.last_epoch <= 0:
            return self._lrs
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._lrs)]


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` every `step_size` epochs.

    >>> import flambeau as fl
    >>> opt = fl.optim.SGD([fl.nn.Parameter(fl.zeros(1))], lr=1.0)
    >>> schedule = fl.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     opt.step()
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._lrs
        return [lr * self.gamma for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at every milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the base class, with the milestones as a plain dict."""
        return {**super().state_dict(), "milestones": dict(self.milestones)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)

    def get_lr(self) -> list[float]:
        if self.last_epoch not in self.milestones:
            return self._lrs
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the rate by `factor` until epoch `total_iters`."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor = {factor}; expected 0 <= factor <= 1")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._lrs]
        if self.last_epoch != self.total_iters:
            return self._lrs
        if self.factor == 0:  # nothing is left to divide
            return list(self.base_lrs)
        return [lr / self.factor for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Moves the rate from start_factor to end_factor times its value over `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor = {start_factor}; expected 0 < factor <= 1")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor = {end_factor}; expected 0 <= factor <= 1")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._lrs]
        if self.last_epoch > self.total_iters:
            return self._lrs
        change = self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)
        return [lr * change for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._lrs if self.last_epoch == 0 else [lr * self.gamma for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr = initial lr * (1 - epoch / total_iters)^power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        left = 1.0 - min(epoch, self.total_iters) / self.total_iters
        return math.pow(left, self.power)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._lrs
        change = self._left(self.last_epoch) / self._left(self.last_epoch - 1)
        return [lr * change for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._left(self.last_epoch) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial lr - eta_min) (1 + cos(pi epoch / T_max)) / 2.

    Source: Loshchilov and Hutter 2016, eq. 5, without restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, period, low = self.last_epoch, self.T_max, self.eta_min
        if epoch == 0:
            return self._lrs
        if self._step_count == 1 and epoch > 0:  # resumed
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:  # leaving the lowest point
            rise = (1 - math.cos(math.pi / period)) / 2
            return [lr + (base - low) * rise for base, lr in zip(self.base_lrs, self._lrs)]
        change = (1 + math.cos(math.pi * epoch / period)) / (
            1 + math.cos(math.pi * (epoch - 1) / period)
        )
        return [(lr - low) * change + low for lr in self._lrs]

    def _get_closed_form_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after T_0, then T_0 T_mult, ... epochs.

    Source: Loshchilov and Hutter 2016, eq. 5.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or T_mult < 1:
            raise ValueError(
                f"CosineAnnealingWarmRestarts: T_0 = {T_0}, T_mult = {T_mult}; expected >= 1"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def _locate(self, epoch: float) -> None:
        period, start = self.T_0, 0.0
        if self.T_mult == 1:
            start = epoch // period * period
        else:
            while epoch - start >= period:
                start += period
                period *= self.T_mult
        self.T_i, self.T_cur = period, epoch - start

    def get_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes to the next epoch, or to a (fractional) `epoch`."""
        self._step_count += 1
        where = self.last_epoch + 1 if epoch is None else epoch
        self._locate(where)
        self.last_epoch = math.floor(where)
        self._write(self.get_lr())


def _per_group(scheduler: str, name: str, value: Any, n: int) -> list[float]:
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(f"{scheduler}: {name} has {len(value)} values for {n} parameter groups")
    return list(value)


def _set_momentum(group: dict[str, Any], value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _check_momentum(scheduler: str, optimizer: Optimizer) -> None:
    if not ("momentum" in optimizer.defaults or "betas" in optimizer.defaults):
        raise ValueError(
            f"{scheduler}: {type(optimizer).__name__} has no momentum; pass cycle_momentum=False"
        )


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
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"OneCycleLR: total_steps = {total_steps}; expected > 0")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start = {pct_start}; expected 0 <= pct_start <= 1")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy = {anneal_strategy!r}; expected 'cos' or 'linear'"
            )
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        up = float(pct_start * total_steps) - 1
        end = total_steps - 1
        # (last step, from, to, momentum from, momentum to), names of group entries
        if three_phase:
            self.phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * up, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self.phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (end, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, peak in zip(groups, _per_group("OneCycleLR", "max_lr", max_lr, len(groups))):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            _check_momentum("OneCycleLR", optimizer)
            if last_epoch == -1:
                lows = _per_group("OneCycleLR", "base_momentum", base_momentum, len(groups))
                highs = _per_group("OneCycleLR", "max_momentum", max_momentum, len(groups))
                for group, low, high in zip(groups, lows, highs):
                    _set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {step}, but the cycle has {self.total_steps} steps (total_steps)"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, (end, lr0, lr1, m0, m1) in enumerate(self.phases):
                if step <= end or i == len(self.phases) - 1:
                    share = (step - start) / (end - start)
                    rates.append(self._anneal(group[lr0], group[lr1], share))
                    if self.cycle_momentum:
                        _set_momentum(group, self._anneal(group[m0], group[m1], share))
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
            raise ValueError(f"CyclicLR: mode = {mode!r}; expected one of {', '.join(modes)}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(
                f"CyclicLR: scale_mode = {scale_mode!r}; expected 'cycle' or 'iterations'"
            )
        groups = optimizer.param_groups
        base_lrs = _per_group("CyclicLR", "base_lr", base_lr, len(groups))
        self.max_lrs = _per_group("CyclicLR", "max_lr", max_lr, len(groups))
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, lr in zip(groups, base_lrs):
                group["lr"] = lr
        if cycle_momentum:
            _check_momentum("CyclicLR", optimizer)
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
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular":
            return 1.0
        return float(0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in bounds:
                _set_momentum(group, high - (high - low) * height)
        return [base + (top - base) * height for base, top in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """As the base class; a function is left out, a callable object saves its attributes."""
        state = super().state_dict()
        fn = state.pop("_scale_fn")
        state["_scale_fn"] = None if fn is None or _is_plain(fn) else dict(fn.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        saved = state.pop("_scale_fn")
        if saved is not None and self._scale_fn is not None:
            self._scale_fn.__dict__.update(saved)
        self.__dict__.update(state)


class SequentialLR(LRScheduler):
    """Runs one scheduler after the other; `milestones` are the epochs of the changes."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedulers with {len(milestones)} milestones; "
                "expected "
                "one milestone fewer than schedulers"
            )
        _check_schedulers("SequentialLR", schedulers, optimizer)
        self._schedulers = schedulers
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler took its first step when it was made; only the first one's should count.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        schedulers[0]._step_count = 0
        schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """As the base class, with the states of the schedulers."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers")):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state)


class ChainedScheduler(LRScheduler):
    """Steps several schedulers of one optimizer together."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler: got no schedulers")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_schedulers("ChainedScheduler", schedulers, self.optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = self._lrs

    def step(self, epoch: int | None = None) -> None:
        """Steps all of them in order."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._lrs

    def state_dict(self) -> dict[str, Any]:
        """As the base class, with the states of the schedulers."""
        return {
            "_last_lr": self._last_lr,
            "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers")):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state)


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a metric has not improved for `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor = {factor}; expected < 1")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode = {mode!r}; expected 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: threshold_mode = {threshold_mode!r}; expected 'rel' or 'abs'"
            )
        n = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * n
        if len(self.min_lrs) != n:
            raise ValueError(
                f"ReduceLROnPlateau: {len(self.min_lrs)} min_lr for {n} parameter groups"
            )
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        super().__init__(optimizer, -1)

    def _start(self) -> None:
        self._steps_before = self.optimizer._n_steps
        self.last_epoch = 0
        self._last_lr = self._lrs

    def _is_better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "rel":
            bar = self.best * (1.0 - sign * self.threshold)
        else:
            bar = self.best - sign * self.threshold
        return value < bar if self.mode == "min" else value > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the metric of the epoch that ended."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, floor in zip(self.optimizer.param_groups, self.min_lrs):
                old = float(group["lr"])
                new = max(old * self.factor, floor)
                if old - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._lrs
