"""ASGD and Rprop: averages of parameters, and steps that heed the signs of gradients alone."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau.optim._plans import Entries
from flambeau.optim.adaptive import _ByParameter
from flambeau.optim.optimizer import (
    Params,
    check_hints,
    checked_pair,
    filled_like,
    non_negative,
    start_state,
)


class ASGD(_ByParameter):
    """p <- (1 - lambd eta) p - eta g with eta = lr / (1 + lambd lr t)^alpha; from step `t0` on, state 'ax' is the mean of p.

    Raises:
        ValueError: a negative lr or weight_decay.

    Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        hints = check_hints("ASGD", foreach=foreach, capturable=capturable, differentiable=differentiable)
        options = non_negative("ASGD", lr=lr, weight_decay=weight_decay)
        super().__init__(params, {**options, "lambd": lambd, "alpha": alpha, "t0": t0, "maximize": maximize, **hints})

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, "ax", eta=float(group["lr"]), mu=1.0)

    _fl_names = ("ax",)
    _fl_scalars = ("step", "eta", "mu")
    _fl_order = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> tuple[float, float]:
        step, eta, mu = numbers
        param.mul_(1 - group["lambd"] * eta)
        param.add_(grad, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(param)
        else:
            state["ax"].add_(param.sub(state["ax"]), alpha=mu)
        lr = float(group["lr"])
        return lr / (1 + group["lambd"] * lr * step) ** group["alpha"], 1 / max(1, step - group["t0"])


class Rprop(_ByParameter):
    """p <- p - s sign(g): an element's own step s grows by etas[1] while its gradient keeps its sign, and else shrinks by etas[0].

    Args:
        step_sizes: the smallest and the largest step.

    Raises:
        ValueError: a negative lr, or not 0 < etas[0] < 1 < etas[1].

    Source: Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning", 1993.
    """

    _fl_names = ("prev",)
    _fl_decays = True  # there is none
    _fl_order = "lr etas step_sizes foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        hints = check_hints("Rprop", foreach=foreach, capturable=capturable, differentiable=differentiable)
        checked_pair("Rprop", "etas", etas), checked_pair("Rprop", "step_sizes", step_sizes)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: Invalid eta values: {etas[0]}, {etas[1]}; expected 0 < etas[0] < 1 < etas[1]")
        options = {**non_negative("Rprop", lr=lr), "etas": etas, "step_sizes": step_sizes}
        super().__init__(params, {**options, "maximize": maximize, **hints})

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, "prev")
        if "step_size" not in state:
            state["step_size"] = filled_like(param, float(group["lr"]))

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        shrink, grow = group["etas"]
        product = grad * state["prev"]
        turned = product < 0
        factor = ops.ones_like(product).masked_fill_(product > 0, grow).masked_fill_(turned, shrink)
        sizes = state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0)
        param.addcmul_(grad.sign(), sizes, value=-1)
        state["prev"].copy_(grad)
