"""Averages of a model's weights over training: plain (SWA) and exponential (EMA)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import AssertedValueError
from flambeau._no_tensor import explains as _explains
from flambeau.autograd import no_grad
from flambeau.nn import Module
from flambeau.optim.lr_scheduler import LRScheduler, _warn_get_lr_called_within_step
from flambeau.optim.optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]

AvgFn = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> AvgFn:
    """average <- decay average + (1 - decay) value, for `AveragedModel(avg_fn=...)`."""
    _check_decay(decay)

    def average(ema: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return ema * decay + value * (1 - decay)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """The same for `AveragedModel(multi_avg_fn=...)`, in place."""
    _check_decay(decay)

    def average(emas: list[Tensor], values: list[Tensor], num_averaged: Any) -> None:
        for ema, value in zip(emas, values):
            if _is_averaged(ema):
                ema.mul_(decay).add_(value, alpha=1 - decay)
            else:
                ema.copy_(ema * decay + value * (1 - decay))

    return average


def get_swa_avg_fn() -> AvgFn:
    """The mean of all values so far."""

    def average(mean: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return mean + (value - mean) / (float(num_averaged) + 1)

    return average


def get_swa_multi_avg_fn() -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """The same for `AveragedModel(multi_avg_fn=...)`, in place."""

    def average(means: list[Tensor], values: list[Tensor], num_averaged: Any) -> None:
        share = 1.0 / (float(num_averaged) + 1)
        for mean, value in zip(means, values):
            if _is_averaged(mean):
                mean.lerp_(value, share)
            else:
                mean.add_(((value - mean) * share).to(mean.dtype))

    return average


def _is_averaged(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided; expected 0 <= decay <= 1")


class AveragedModel(Module):
    """A copy of a model that holds the average of its weights.

    Args:
        device: where the copy lives; None is where the model does.
        avg_fn: (average, value, number averaged) -> new average; the mean if not given.
        multi_avg_fn: the same in place, for all parameters at once.
        use_buffers: average the buffers too; otherwise they are copied.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.optim.swa_utils import AveragedModel, get_ema_avg_fn
        >>> net = fl.nn.Linear(2, 1)
        >>> ema = AveragedModel(net, avg_fn=get_ema_avg_fn(0.9))
        >>> ema.update_parameters(net)
        >>> ema.n_averaged.item()
        1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AvgFn | None = None,
        multi_avg_fn: Callable[[list[Tensor], list[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertedValueError("AveragedModel: avg_fn and multi_avg_fn; expected one of them")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.zeros((), dtype=_C.int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _fl_averaged(self, model: Module) -> list[Tensor]:
        every: list[Tensor] = list(model.parameters())
        return every + list(model.buffers()) if self.use_buffers else every

    def update_parameters(self, model: Module) -> None:
        """Takes the model's present weights into the average; the first ones are copied."""
        own = [x.detach() for x in self._fl_averaged(self.module)]
        new = [x.detach().to(mine.device) for x, mine in zip(self._fl_averaged(model), own)]
        with no_grad():
            if self.n_averaged.item() == 0:
                for mine, value in zip(own, new):
                    mine.copy_(value)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn(own, new, self.n_averaged)
            else:
                average = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
                for mine, value in zip(own, new):
                    mine.copy_(average(mine, value, self.n_averaged))
            if not self.use_buffers:
                for kept, buffer in zip(self.module.buffers(), model.buffers()):
                    kept.detach().copy_(buffer.detach())
            self.n_averaged += 1


class SWALR(LRScheduler):
    """Anneals the rate from where it is to `swa_lr` in `anneal_epochs` steps, and keeps it there.

    Args:
        swa_lr: the final rate, one for all groups or a list with one per group.
        anneal_strategy: 'cos' or 'linear'.

    Raises:
        ValueError: another strategy, negative `anneal_epochs`, or a list of another length.

    Source: Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization".

    Example:
        >>> import flambeau as fl
        >>> from flambeau.optim.swa_utils import SWALR
        >>> optimizer = fl.optim.SGD(fl.nn.Linear(2, 1).parameters(), lr=1.0)
        >>> schedule = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"SWALR: {len(rates)} swa_lr for {len(groups)} parameter groups")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs = {anneal_epochs!r}; expected an integer >= 0")
        for group, rate in zip(groups, rates):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _fl_share(self, step: int) -> float:
        """How much of the way to swa_lr is done after `step` steps, from 0 to 1."""
        t = min(max(step / max(1, self.anneal_epochs), 0.0), 1.0)
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """Moves the present rates, whatever else wrote them, by the part that is due."""
        _warn_get_lr_called_within_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._fl_share(step - 1), self._fl_share(step)
        rates = []
        for lr, group in zip(self._fl_lrs, self.optimizer.param_groups):
            goal = group["swa_lr"]
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch norm anew from one pass over `loader`."""
    layers = [m for m in model.modules() if hasattr(m, "running_mean") and hasattr(m, "momentum")]
    layers = [m for m in layers if m.running_mean is not None]
    if not layers:
        return
    momenta = [m.momentum for m in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    with no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.train(was_training)

_explains(globals(), first=True)
