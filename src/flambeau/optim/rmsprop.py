"""RMSprop."""

from __future__ import annotations

from flambeau._C import Tensor
from flambeau.optim._numbers import option_of
from flambeau.optim._plans import Entries, Plan
from flambeau.optim.optimizer import (
    Optimizer,
    Params,
    check_hints,
    non_negative,
    start_state,
)


class RMSprop(Optimizer):
    """v <- alpha v + (1 - alpha) g^2; p <- p - lr g / (sqrt(v) + eps).

    `centered` subtracts the squared mean of the gradient from v.

    Raises:
        ValueError: a negative option.

    Source: Hinton, Neural Networks for Machine Learning, lecture 6e; Graves 2013, eq. 38-45
    (centered).
    """

    _fl_scalars = ("step",)
    _fl_order = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        hints = check_hints("RMSprop", foreach=foreach, capturable=capturable, differentiable=differentiable)
        options = non_negative(
            "RMSprop", lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        super().__init__(params, {**options, "centered": centered, "maximize": maximize, **hints})

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, "square_avg")
        if group["momentum"] > 0:
            start_state(param, state, "momentum_buffer")
        if group["centered"]:
            start_state(param, state, "grad_avg")

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        plan.count()
        plan.step(
            "rmsprop_",
            grads,
            [
                plan.tensors("square_avg"),
                plan.tensors("grad_avg") if group["centered"] else [],
                plan.tensors("momentum_buffer") if group["momentum"] > 0 else [],
            ],
            [],
            (
                option_of(group["lr"]),
                group["alpha"],
                group["eps"],
                group["weight_decay"],
                group["momentum"],
                bool(group["maximize"]),
            ),
        )
