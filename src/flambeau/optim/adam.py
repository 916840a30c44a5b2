"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.optim._numbers import option_of
from flambeau.optim._plans import Entries, Plan
from flambeau.optim.optimizer import (
    Optimizer,
    Params,
    check_hints,
    decay_rates,
    non_negative,
    start_state,
)


class Adam(Optimizer):
    """m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; p <- p - lr m' / (sqrt(v') + eps).

    m' and v' are corrected for their start at zero. `amsgrad` uses the largest v so far.

    Raises:
        ValueError: a negative option or betas outside [0, 1).

    Source: Kingma and Ba 2014, algorithm 1; Reddi et al. 2018, algorithm 2 (amsgrad).
    """

    _fl_decoupled = False
    _fl_instead = "SparseAdam"
    _fl_scalars = ("step",)
    _fl_order = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        base = "AdamW" if self._fl_decoupled else "Adam"
        hints = check_hints(base, foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        defaults = {
            **non_negative(name, lr=lr, eps=eps, weight_decay=weight_decay),
            "betas": decay_rates(name, betas),
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay or self._fl_decoupled,
        }
        super().__init__(params, {**defaults, **hints})

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state, "exp_avg", "exp_avg_sq")
        if group["amsgrad"]:
            start_state(param, state, "max_exp_avg_sq")

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        amsgrad = bool(group["amsgrad"])
        beta1, beta2 = group["betas"]
        decoupled = group.get("decoupled_weight_decay", self._fl_decoupled)
        plan.step(
            "adamw_" if decoupled else "adam_",
            grads,
            [
                plan.tensors("exp_avg"),
                plan.tensors("exp_avg_sq"),
                plan.tensors("max_exp_avg_sq") if amsgrad else [],
            ],
            plan.count(),
            (
                option_of(group["lr"]),
                beta1,
                beta2,
                group["eps"],
                group["weight_decay"],
                amsgrad,
                bool(group["maximize"]),
                decoupled,
            ),
        )


class AdamW(Adam):
    """Adam whose weight decay acts on the parameter itself: p <- p - lr weight_decay p.

    Source: Loshchilov and Hutter 2017, algorithm 2.

    >>> import flambeau as fl
    >>> net = fl.nn.Linear(2, 1)
    >>> fl.optim.AdamW(net.parameters()).defaults["weight_decay"]
    0.01
    """

    _fl_decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._fl_set_defaults()
        for group in self._fl_groups:  # what is loaded may be an Adam's
            group["decoupled_weight_decay"] = True
