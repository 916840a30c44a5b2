"""Half a cosine, once or again and again."""

from __future__ import annotations

import math
from typing import Any

from flambeau._errors import RefusedTypeError
from flambeau.optim.lr_scheduler._base import LRScheduler, _warn_get_lr_called_within_step
from flambeau.optim.optimizer import Optimizer


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

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        epoch, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:  # resumed: the groups have the rate
            return self._fl_lrs
        if self._step_count == 1 and epoch > 0:  # resumed
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:  # leaving the lowest point
            rise = (1 - math.cos(math.pi / period)) / 2
            return [lr + (base - low) * rise for base, lr in zip(self.base_lrs, self._fl_lrs)]
        change = (1 + math.cos(math.pi * epoch / period)) / (
            1 + math.cos(math.pi * (epoch - 1) / period)
        )
        return [(lr - low) * change + low for lr in self._fl_lrs]

    def _get_closed_form_lr(self) -> list[Any]:
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
        for what, n in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(n, int):
                wanted = "positive integer T_0" if what == "T_0" else "integer T_mult >= 1"
                raise RefusedTypeError(f"CosineAnnealingWarmRestarts: Expected {wanted}, but got {n!r}, a {type(n).__name__}")
        if T_0 <= 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: Expected positive integer T_0, but got {T_0}")
        if T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        if last_epoch > 0:  # resumed
            self._fl_locate(last_epoch)
        super().__init__(optimizer, last_epoch)

    def _fl_locate(self, epoch: float) -> None:
        period, start = self.T_0, 0 * epoch
        if self.T_mult == 1:
            start = epoch // period * period
        else:
            while epoch - start >= period:
                start += period
                period *= self.T_mult
        self.T_i, self.T_cur = period, epoch - start

    def get_lr(self) -> list[Any]:
        _warn_get_lr_called_within_step(self)
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes to the next epoch, or to a (fractional) `epoch`."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: Expected non-negative epoch, but got {epoch}")
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1  # one after the last, which may have been within an epoch
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            self._fl_locate(epoch)
            self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._fl_write(values)
