"""A schedule that looks at a metric."""

from __future__ import annotations

import math
from typing import Any

from flambeau.optim.lr_scheduler._base import LRScheduler
from flambeau.optim.optimizer import Optimizer, set_option


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

    def _note_rates(self, optimizer: Optimizer, last_epoch: int) -> None:
        """It goes by the rates as they are: a schedule that is made later begins with what this one has left."""

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
                    set_option(group, "lr", new)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._lrs
