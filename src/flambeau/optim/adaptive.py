"""Adadelta, Adamax, NAdam and RAdam: optimizers written with tensor operations."""

from __future__ import annotations

import math
from itertools import repeat
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.autograd import no_grad
from flambeau.optim._formulas import pairs_of
from flambeau.optim._plans import Entries, Plan
from flambeau.optim.optimizer import (
    Optimizer,
    Params,
    check_hints,
    checked_number,
    decay_rates,
    non_negative,
    start_state,
)


class _ByParameter(Optimizer):
    """Steps one parameter after the other: a subclass defines `_fl_move`."""

    _fl_names: tuple[str, ...] = ()  # state tensors that start at zero
    _fl_scalars: tuple[str, ...] = ("step",)  # what `_fl_move` gets; 'step' comes first, and is counted
    _fl_decays = False  # whether `_fl_move` does the weight decay, too

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, *self._fl_names)

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        with no_grad():
            for name in self._fl_names:
                plan.tensors(name)
            columns = [plan.column(name) for name in self._fl_scalars]
            rows: list[list[Any]] = [column.read() if i else column.count() for i, column in enumerate(columns)]
            decay = 0 if self._fl_decays else group.get("weight_decay", 0)
            new: list[Any] = []
            for param, grad, state, numbers in zip(plan.params, grads, plan.states, zip(*rows) if rows else repeat(())):
                if group.get("maximize", False):
                    grad = -grad
                if param.is_complex():
                    param, grad, state = ops.view_as_real(param), ops.view_as_real(grad), pairs_of(state)
                if decay:
                    if group.get("decoupled_weight_decay", False):
                        param.mul_(1 - float(group["lr"]) * decay)
                    else:
                        grad = grad.add(param, alpha=decay)
                new.append(self._fl_move(group, param, grad, state, numbers))
            for i, column in enumerate(columns[1:]):
                column.write([row[i] for row in new])

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> Any:
        """Moves one parameter, given the `_fl_scalars` of its state; 'step' counts from 1. Returns what becomes of those after it.

        Tensors are real: of complex ones they are views, and written in place.
        """
        raise NotImplementedError


class Adadelta(_ByParameter):
    """v <- rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) g; u <- rho u + (1 - rho) d^2;
    p <- p - lr d.

    Raises:
        ValueError: a negative option, or rho outside [0, 1].

    Source: Zeiler 2012, algorithm 1.
    """

    _fl_names = ("square_avg", "acc_delta")
    _fl_order = "lr rho eps weight_decay maximize capturable foreach differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= checked_number("Adadelta", "rho", rho) <= 1.0:
            raise ValueError(f"Adadelta: Invalid rho value: {rho}; expected 0 <= rho <= 1")
        hints = check_hints("Adadelta", foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            **non_negative("Adadelta", lr=lr, rho=rho, eps=eps, weight_decay=weight_decay),
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, **hints})

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        rho, eps = group["rho"], group["eps"]
        squares, moved = state["square_avg"], state["acc_delta"]
        squares.mul_(rho).add_(grad * grad, alpha=1 - rho)
        delta = (moved + eps).sqrt_().div_((squares + eps).sqrt_()).mul_(grad)
        moved.mul_(rho).add_(delta * delta, alpha=1 - rho)
        param.add_(delta, alpha=-float(group["lr"]))


class Adamax(_ByParameter):
    """m <- b1 m + (1 - b1) g; u <- max(b2 u, |g| + eps); p <- p - lr / (1 - b1^t) m / u.

    Raises:
        ValueError: a negative option or betas outside [0, 1).

    Source: Kingma and Ba 2014, algorithm 2.
    """

    _fl_names = ("exp_avg", "exp_inf")
    _fl_order = "lr betas eps weight_decay foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        hints = check_hints("Adamax", foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            **non_negative("Adamax", lr=lr, eps=eps, weight_decay=weight_decay),
            "betas": decay_rates("Adamax", betas),
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, **hints})

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        step = numbers[0]
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.mul_(beta1).add_(grad, alpha=1 - beta1)
        largest.copy_(ops.maximum(largest * beta2, grad.abs() + group["eps"]))
        param.add_(mean / largest, alpha=-float(group["lr"]) / (1 - beta1**step))


class NAdam(_ByParameter):
    """Adam with Nesterov's momentum: the step looks ahead along the next momentum.

    Raises:
        ValueError: a negative option or betas outside [0, 1).

    Source: Dozat 2016, "Incorporating Nesterov Momentum into Adam".
    """

    _fl_names = ("exp_avg", "exp_avg_sq")
    _fl_order = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        hints = check_hints("NAdam", foreach=foreach, capturable=capturable, differentiable=differentiable)
        options = non_negative(
            "NAdam", lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        defaults = {
            **options,
            "betas": decay_rates("NAdam", betas),
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, **hints})

    _fl_scalars = ("step", "mu_product")

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, *self._fl_names, mu_product=1.0)

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> tuple[float]:
        step, product = numbers
        beta1, beta2 = group["betas"]
        lr, decay = float(group["lr"]), group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay))
        product *= mu
        mean, squares = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(grad, alpha=1 - beta1)
        squares.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
        size = (squares / (1 - beta2**step)).sqrt_().add_(group["eps"])
        param.add_(grad / size, alpha=-lr * (1.0 - mu) / (1.0 - product))
        param.add_(mean / size, alpha=-lr * mu_next / (1.0 - product * mu_next))
        return (product,)


class RAdam(_ByParameter):
    """Adam that steps by the mean alone until the variance of its second moment is known.

    Raises:
        ValueError: a negative option or betas outside [0, 1).

    Source: Liu et al. 2019, "On the Variance of the Adaptive Learning Rate and Beyond", algorithm 2.
    """

    _fl_names = ("exp_avg", "exp_avg_sq")
    _fl_order = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        hints = check_hints("RAdam", foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            **non_negative("RAdam", lr=lr, eps=eps, weight_decay=weight_decay),
            "betas": decay_rates("RAdam", betas),
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, **hints})

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        step = numbers[0]
        beta1, beta2 = group["betas"]
        mean, squares = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(grad, alpha=1 - beta1)
        squares.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
        rate = float(group["lr"]) / (1 - beta1**step)
        left = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / left
        if length <= 5.0:
            param.add_(mean, alpha=-rate)
            return
        rectified = math.sqrt(
            (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        )
        size = squares.sqrt().add_(group["eps"])
        param.add_(mean / size, alpha=-rate * rectified * math.sqrt(left))
