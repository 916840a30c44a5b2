"""Schedules made of schedules: one after the other, or together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from flambeau.optim.lr_scheduler._base import LRScheduler
from flambeau.optim.lr_scheduler._plateau import ReduceLROnPlateau
from flambeau.optim.optimizer import Optimizer, set_option


def _check_schedulers(name: str, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
    for i, scheduler in enumerate(schedulers):
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler, whose step() wants a metric: scheduler {i}; step it by itself"
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but scheduler {i} has another")


class _Combined(LRScheduler):
    """Keeps several schedulers of one optimizer."""

    _schedulers: list[LRScheduler]

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


class SequentialLR(_Combined):
    """Runs one scheduler after the other; `milestones` are the epochs of the changes."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        for what, given in (("schedulers", schedulers), ("milestones", milestones)):
            if not hasattr(given, "__len__"):
                raise TypeError(f"SequentialLR: {what} is a {type(given).__name__}; expected a list")
        if not schedulers or len(milestones) != len(schedulers) - 1:
            if not schedulers:
                raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler")
            raise ValueError(
                "SequentialLR expects number of schedulers provided to be one more than the number of milestone points, "
                f"but got {len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        _check_schedulers("SequentialLR", schedulers, optimizer)
        self._schedulers = schedulers
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler took its first step when it was made; only the one's that comes first should count.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes the step back that each scheduler took when it was made."""
        for scheduler in (self if sched is None else sched)._schedulers:
            if hasattr(scheduler, "_schedulers"):
                self.recursive_undo(scheduler)
            elif hasattr(scheduler, "last_epoch"):
                scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Goes to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            return self.step()
        self.last_epoch = epoch
        scheduler = self._schedulers[bisect_right(self._milestones, epoch)]
        scheduler._update_lr(epoch)
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Steps several schedulers of one optimizer together."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler")
        if not hasattr(schedulers, "__getitem__"):
            raise TypeError(f"ChainedScheduler: schedulers is a {type(schedulers).__name__}; expected a list of schedulers")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_schedulers("ChainedScheduler", schedulers, self.optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = self._fl_lrs

    def step(self) -> None:  # type: ignore[override]
        """Steps all of them in order."""
        self._update_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        for scheduler in self._schedulers:
            if epoch is None:
                scheduler.step()
            else:
                scheduler._update_lr(epoch)
        self._last_lr = self._fl_lrs
