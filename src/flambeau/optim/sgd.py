"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau.optim._numbers import option_of
from flambeau.optim._plans import Entries, Plan
from flambeau.optim.optimizer import Optimizer, Params, check_hints, non_negative
from flambeau.sparse import SparseTensor


class SGD(Optimizer):
    """g <- grad + weight_decay p; b <- momentum b + (1 - dampening) g; p <- p - lr b.

    The first step sets b = g. `nesterov` moves along g + momentum b. A step over a sparse gradient costs by its rows, and with momentum by
    those that b, which is sparse then, has gathered. With the first dense gradient b becomes dense, and stays so.

    Raises:
        ValueError: a negative option, or nesterov without momentum or with dampening.
        RuntimeError: in a step, weight_decay with a gradient that is sparse.

    Source: Sutskever et al. 2013, with the learning rate outside of the momentum.

    >>> import flambeau as fl
    >>> p = fl.nn.Parameter(fl.tensor([1.0]))
    >>> p.grad = fl.tensor([2.0])
    >>> fl.optim.SGD([p], lr=0.25).step()
    >>> p.tolist()
    [0.5]
    """

    _fl_sparse_gradients = "taken"
    _fl_order = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            **non_negative("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay),
            "dampening": dampening,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        hints = check_hints("SGD", foreach=foreach, differentiable=differentiable, fused=fused)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "SGD: Nesterov momentum requires a momentum and zero dampening, "
                f"got momentum = {momentum} and dampening = {dampening}"
            )
        super().__init__(params, {**defaults, **hints})

    def _fl_update_sparse(self, group: Entries, param: Tensor, state: Entries, grad: SparseTensor) -> None:
        step: Any = -grad.detach() if group["maximize"] else grad.detach()
        if momentum := group["momentum"]:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = step.coalesce().clone()
            elif isinstance(buffer, SparseTensor):
                buffer = (buffer * momentum).add(step, alpha=1 - group["dampening"]).coalesce()
            else:
                buffer.mul_(momentum).add_(step, alpha=1 - group["dampening"])
            state["momentum_buffer"] = buffer
            step = step.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        param.add_(step, alpha=-float(group["lr"]))

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        momentum = group["momentum"]
        buffers: list[Any] = []
        first = [0] * len(plan.params)
        if momentum:
            for i, (param, state) in enumerate(zip(plan.params, plan.states)):
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    first[i] = 1
                    buffer = state["momentum_buffer"] = ops.zeros_like(param.detach())
                elif isinstance(buffer, SparseTensor):  # of steps over sparse gradients
                    buffer = state["momentum_buffer"] = buffer.to_dense()
                buffers.append(buffer)
            if any(first):
                plan.share()
        plan.step(
            "sgd_",
            grads,
            [buffers],
            first,
            (
                option_of(group["lr"]),
                momentum,
                group["dampening"],
                group["weight_decay"],
                bool(group["nesterov"]),
                bool(group["maximize"]),
            ),
        )
