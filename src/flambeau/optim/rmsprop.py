"""RMSprop."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.optim.optimizer import Optimizer, Params, _Plan, check_hints, check_range


class RMSprop(Optimizer):
    """v <- alpha v + (1 - alpha) g^2; p <- p - lr g / (sqrt(v) + eps).

    `centered` subtracts the squared mean of the gradient from v.

    Raises:
        ValueError: a negative option.

    Source: Hinton, Neural Networks for Machine Learning, lecture 6e; Graves 2013, eq. 38-45
    (centered).
    """

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
        check_range(
            "RMSprop", lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        check_hints("RMSprop", differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _init_state(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> None:
        state.setdefault("step", 0)
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        for name in names:
            if name not in state:
                state[name] = ops.zeros_like(param.detach())

    def _update(self, group: dict[str, Any], plan: _Plan, grads: list[Tensor]) -> None:
        plan.count()
        _C.optim.rmsprop_(
            plan.params,
            grads,
            plan.tensors("square_avg"),
            plan.tensors("grad_avg") if group["centered"] else [],
            plan.tensors("momentum_buffer") if group["momentum"] > 0 else [],
            float(group["lr"]),
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            group["momentum"],
            group["maximize"],
        )
