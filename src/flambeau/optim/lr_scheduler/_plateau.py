"""A schedule that looks at a metric."""

from __future__ import annotations

import math
from typing import Any

from flambeau._warn import warn
from flambeau.optim.lr_scheduler._base import LRScheduler, attached
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
            raise ValueError(f"ReduceLROnPlateau: Factor should be < 1.0, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode} is unknown! Expected 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold mode {threshold_mode} is unknown! Expected 'rel' or 'abs'")
        several = isinstance(min_lr, (list, tuple))
        self.factor = factor
        self.optimizer = attached(self, optimizer)
        n = len(optimizer.param_groups)
        self.default_min_lr = None if several else min_lr
        self.min_lrs = list(min_lr) if several else [min_lr] * n
        if len(self.min_lrs) != n:
            raise ValueError(f"ReduceLROnPlateau: expected {n} min_lrs, one for each parameter group, got {len(self.min_lrs)}")
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        # It goes by the rates as they are: a schedule that is made later begins with what this one has left.
        self.last_epoch = 0
        self._last_lr = self._fl_lrs
        self.mode_worse = math.inf if mode == "min" else -math.inf  # what every metric is better than
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self._reset()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self.mode_worse = math.inf if self.mode == "min" else -math.inf

    @property
    def in_cooldown(self) -> bool:
        """True in the epochs after a reduction in which nothing is counted."""
        return self.cooldown_counter > 0

    def _reset(self) -> None:
        """Forgets the metrics."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def _is_better(self, a: float, best: float) -> bool:
        """True if `a` is an improvement over `best`, by more than the threshold."""
        sign = 1.0 if self.mode == "min" else -1.0
        bar = best * (1.0 - sign * self.threshold) if self.threshold_mode == "rel" else best - sign * self.threshold
        return a < bar if self.mode == "min" else a > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the metric of the epoch that ended."""
        value = float(metrics)
        if epoch is not None:
            warn(
                f"{type(self).__name__}.step(metrics, epoch) is deprecated: the schedule counts its steps itself; call step(metrics)"
            )
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._fl_lrs

    def _reduce_lr(self, epoch: int) -> None:
        """Multiplies the rates of all groups; a class of a program's own may do something else when the metric stays."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # some were added later
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: {len(self.min_lrs)} min_lr for {len(groups)} parameter groups, some of which were added later; "
                    "write one for each into min_lrs"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, floor in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, floor)
            if old - new > self.eps:
                set_option(group, "lr", new)
