"""Schedules that multiply the rate: by a function, at milestones, towards an end."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.optim.lr_scheduler._base import (
    LRScheduler,
    _warn_get_lr_called_within_step,
    attached,
    is_plain,
)
from flambeau.optim.optimizer import Optimizer


class LambdaLR(LRScheduler):
    """lr = initial lr * lr_lambda(epoch)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        n = len(attached(self, optimizer).param_groups)
        lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n
        if len(lambdas) != n:
            raise ValueError(f"{type(self).__name__}: Expected {n} lr_lambdas, one for each parameter group, but got {len(lambdas)}")
        for fn in lambdas:
            if not callable(fn):
                kind = type(fn).__name__
                raise TypeError(f"{type(self).__name__}: lr_lambda is a {kind}; expected a function of the epoch, or a list of some")
        self.lr_lambdas: list[Callable[[int], float]] = lambdas
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the base class; functions are left out, callable objects save their attributes."""
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = [
            None if is_plain(fn) else dict(fn.__dict__) for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        state = dict(state_dict)
        for fn, saved in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if saved is not None:
                fn.__dict__.update(saved)
        self.__dict__.update(state)

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    """lr <- lr * lr_lambda(epoch)."""

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self._is_initial:  # only later steps multiply, one to epoch 0 too
            return self._fl_lrs
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._fl_lrs)]


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

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._fl_lrs
        return [lr * self.gamma for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
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
        if not isinstance(milestones, Iterable):
            raise TypeError(f"MultiStepLR: milestones is a {type(milestones).__name__}; expected a list of epochs")
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)  # from a file that knows plain dicts alone

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self.last_epoch not in self.milestones:
            return self._fl_lrs
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
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
            raise ValueError(f"ConstantLR: Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._fl_lrs]
        if self.last_epoch != self.total_iters:
            return self._fl_lrs
        if self.factor == 0:  # nothing is left to divide
            return list(self.base_lrs)
        return [lr * (1.0 / self.factor) for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
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
            raise ValueError(
                "LinearLR: Starting multiplicative factor expected to be greater than 0 and less or equal to 1, "
                f"got {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _fl_factor(self, epoch: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch, self.total_iters) / self.total_iters

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._fl_lrs]
        if self._is_initial or self.last_epoch > self.total_iters:  # resumed: the groups have the rate
            return self._fl_lrs
        # The factor of this epoch by that of the one before, which differ by `way` over `total_iters`.
        way = self.end_factor - self.start_factor
        change = 1.0 + way / (self.total_iters * self.start_factor + (self.last_epoch - 1) * way)
        return [lr * change for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._fl_factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        return self._fl_lrs if self._is_initial else [lr * self.gamma for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr = initial lr * (1 - epoch / total_iters)^power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _fl_left(self, epoch: int) -> float:
        return 1.0 - min(epoch, self.total_iters) / self.total_iters

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:  # resumed: the groups have the rate
            return self._fl_lrs
        change = (self._fl_left(self.last_epoch) / self._fl_left(self.last_epoch - 1)) ** self.power
        return [lr * change for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._fl_left(self.last_epoch) ** self.power for base in self.base_lrs]
