"""Adagrad."""

from __future__ import annotations

from flambeau._C import Tensor
from flambeau.optim._numbers import option_of
from flambeau.optim._plans import Entries, Plan
from flambeau.optim._rows import Rows
from flambeau.optim.optimizer import (
    Optimizer,
    Params,
    advance,
    check_hints,
    filled_like,
    non_negative,
    start_state,
)
from flambeau.sparse import SparseTensor


class Adagrad(Optimizer):
    """s <- s + g^2; p <- p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps).

    A step over a sparse gradient costs by its rows.

    Raises:
        ValueError: a negative option.
        RuntimeError: in a step, weight_decay with a gradient that is sparse.

    Source: Duchi et al. 2011.
    """

    _fl_scalars = ("step",)
    _fl_sparse_gradients = "taken"
    _fl_order = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        hints = check_hints("Adagrad", foreach=foreach, differentiable=differentiable, fused=fused)
        options = non_negative(
            "Adagrad",
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(params, {**options, "maximize": maximize, **hints})
        for group in self.param_groups:
            for param in group["params"]:
                self._fl_init_state(group, param, self.state[param])

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state)
        if "sum" not in state:
            state["sum"] = filled_like(param, group["initial_accumulator_value"])

    def _fl_update_sparse(self, group: Entries, param: Tensor, state: Entries, grad: SparseTensor) -> None:
        self._fl_init_state(group, param, state)
        step = advance(state)
        rows = Rows(grad, group["maximize"])
        sums = rows.of(state["sum"]).add_(rows.values.square())
        rows.put(state["sum"], sums)
        rate = float(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        rows.add(param, (rows.values / sums.sqrt_().add_(group["eps"])).mul_(-rate))

    def share_memory(self) -> None:
        """Moves the sums of squares to memory that other processes see: `Tensor.share_memory_`."""
        for group in self._fl_groups:
            for param in group["params"]:
                self._fl_init_state(group, param, self.state[param])
                self.state[param]["sum"].share_memory_()

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None:
        plan.step(
            "adagrad_",
            grads,
            [plan.tensors("sum")],
            plan.count(),
            (
                option_of(group["lr"]),
                group["lr_decay"],
                group["weight_decay"],
                group["eps"],
                bool(group["maximize"]),
            ),
        )
