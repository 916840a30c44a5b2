"""Steps as functions of parameters, gradients and states, as PyTorch has them beside its optimizers.

Each does what the optimizer of its name does. States are lists, an entry for each parameter, and are written in place; `foreach`, `fused`,
`capturable`, `has_complex` and `has_sparse_grad` are hints that change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, first_sparse, ops
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.adaptive import Adadelta, Adamax, NAdam, RAdam
from flambeau.optim.averaged import ASGD, Rprop
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd", "sparse_adam",
]  # fmt: skip

Tensors = list[Tensor]


def _step(
    kind: Callable[[Tensors], Optimizer], params: Tensors, grads: Tensors, lists: dict[str, list[Any]], scale: Tensor | None = None,
    found_inf: Tensor | None = None, **options: Any,
) -> None:  # fmt: skip
    """One step of an optimizer with these options; `lists` are its states by name."""
    if found_inf is not None and bool(found_inf):
        return
    grads = list(grads) if scale is None else [grad / scale for grad in grads]
    optimizer = kind([ops.zeros(())])  # who steps; the parameters may be results, which no optimizer is made of
    group = {**optimizer.defaults, **options, "params": params}
    states = [{name: values[i] for name, values in lists.items() if i < len(values) and values[i] is not None} for i in range(len(params))]
    optimizer.state.update(zip(params, states))
    optimizer._fl_step_over((0, 0), group, list(params), grads, first_sparse(grads) >= 0)
    for i, state in enumerate(states):
        for name, values in lists.items():
            if i >= len(values) or name not in state or state[name] is values[i]:
                continue
            if isinstance(values[i], Tensor):
                values[i].copy_(state[name])
            else:  # a buffer that was not there before, or a count that is a number
                values[i] = state[name] if values[i] is None else type(values[i])(state[name])


def adadelta(
    params: Tensors, grads: Tensors, square_avgs: Tensors, acc_deltas: Tensors, state_steps: Tensors, capturable: bool = False,
    foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *, lr: float, rho: float, eps: float,
    weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of `Adadelta`."""
    states: dict[str, list[Any]] = {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps}
    _step(
        Adadelta, params, grads, states, differentiable=differentiable, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay,
        maximize=maximize,
    )  # fmt: skip


def adagrad(
    params: Tensors, grads: Tensors, state_sums: Tensors, state_steps: Tensors, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_sparse_grad: bool = False, foreach: bool | None = None,
    differentiable: bool = False, has_complex: bool = False, *, lr: float, weight_decay: float, lr_decay: float, eps: float,
    maximize: bool,
) -> None:  # fmt: skip
    """A step of `Adagrad`."""
    states: dict[str, list[Any]] = {"sum": state_sums, "step": state_steps}
    _step(
        Adagrad, params, grads, states, grad_scale, found_inf, differentiable=differentiable, lr=lr, weight_decay=weight_decay,
        lr_decay=lr_decay, eps=eps, maximize=maximize,
    )  # fmt: skip


def adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors, state_steps: Tensors,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False, decoupled_weight_decay: bool = False,
    *, amsgrad: bool, beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of `Adam`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs, "step": state_steps}
    _step(
        Adam, params, grads, states, grad_scale, found_inf, differentiable=differentiable,
        decoupled_weight_decay=decoupled_weight_decay, amsgrad=amsgrad, lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize,
        betas=(beta1, beta2),
    )  # fmt: skip


def adamw(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors, state_steps: Tensors,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False, *, amsgrad: bool,
    beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of `AdamW`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs, "step": state_steps}
    _step(
        AdamW, params, grads, states, grad_scale, found_inf, differentiable=differentiable, amsgrad=amsgrad, lr=lr,
        weight_decay=weight_decay, eps=eps, maximize=maximize, betas=(beta1, beta2),
    )  # fmt: skip


def adamax(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_infs: Tensors, state_steps: Tensors, foreach: bool | None = None,
    maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, eps: float,
    beta1: float, beta2: float, lr: float, weight_decay: float,
) -> None:  # fmt: skip
    """A step of `Adamax`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps}
    _step(
        Adamax, params, grads, states, maximize=maximize, differentiable=differentiable, eps=eps, lr=lr, weight_decay=weight_decay,
        betas=(beta1, beta2),
    )  # fmt: skip


def asgd(
    params: Tensors, grads: Tensors, axs: Tensors, mus: Tensors, etas: Tensors, state_steps: Tensors, foreach: bool | None = None,
    maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lambd: float,
    lr: float, t0: float, alpha: float, weight_decay: float,
) -> None:  # fmt: skip
    """A step of `ASGD`."""
    states: dict[str, list[Any]] = {"ax": axs, "mu": mus, "eta": etas, "step": state_steps}
    _step(
        ASGD, params, grads, states, maximize=maximize, differentiable=differentiable, lambd=lambd, lr=lr, t0=t0, alpha=alpha,
        weight_decay=weight_decay,
    )  # fmt: skip


def nadam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, mu_products: Tensors, state_steps: Tensors,
    decoupled_weight_decay: bool = False, foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
    has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float,
    momentum_decay: float, eps: float,
) -> None:  # fmt: skip
    """A step of `NAdam`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products, "step": state_steps}
    _step(
        NAdam, params, grads, states, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable, maximize=maximize,
        lr=lr, weight_decay=weight_decay, momentum_decay=momentum_decay, eps=eps, betas=(beta1, beta2),
    )  # fmt: skip


def radam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, state_steps: Tensors,
    decoupled_weight_decay: bool = False, foreach: bool | None = None, differentiable: bool = False, capturable: bool = False,
    has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, eps: float,
) -> None:  # fmt: skip
    """A step of `RAdam`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    _step(
        RAdam, params, grads, states, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable, maximize=maximize,
        lr=lr, weight_decay=weight_decay, eps=eps, betas=(beta1, beta2),
    )  # fmt: skip


def rmsprop(
    params: Tensors, grads: Tensors, square_avgs: Tensors, grad_avgs: Tensors, momentum_buffer_list: Tensors, state_steps: Tensors,
    foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    has_complex: bool = False, *, lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool,
) -> None:  # fmt: skip
    """A step of `RMSprop`."""
    states: dict[str, list[Any]] = {
        "square_avg": square_avgs, "grad_avg": grad_avgs, "momentum_buffer": momentum_buffer_list, "step": state_steps,
    }  # fmt: skip
    _step(
        RMSprop, params, grads, states, maximize=maximize, differentiable=differentiable, lr=lr, alpha=alpha, eps=eps,
        weight_decay=weight_decay, momentum=momentum, centered=centered,
    )  # fmt: skip


def rprop(
    params: Tensors, grads: Tensors, prevs: Tensors, step_sizes: Tensors, state_steps: Tensors, foreach: bool | None = None,
    capturable: bool = False, maximize: bool = False, differentiable: bool = False, has_complex: bool = False, *, step_size_min: float,
    step_size_max: float, etaminus: float, etaplus: float,
) -> None:  # fmt: skip
    """A step of `Rprop`."""
    states: dict[str, list[Any]] = {"prev": prevs, "step_size": step_sizes, "step": state_steps}
    _step(
        Rprop, params, grads, states, maximize=maximize, differentiable=differentiable, etas=(etaminus, etaplus),
        step_sizes=(step_size_min, step_size_max),
    )  # fmt: skip


def sgd(
    params: Tensors, d_p_list: Tensors, momentum_buffer_list: list[Tensor | None], has_sparse_grad: bool = False,
    foreach: bool | None = None, fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None, *,
    weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    """A step of `SGD`."""
    states: dict[str, list[Any]] = {"momentum_buffer": momentum_buffer_list}
    _step(
        SGD, params, d_p_list, states, grad_scale, found_inf, weight_decay=weight_decay, momentum=momentum, lr=lr, dampening=dampening,
        nesterov=nesterov, maximize=maximize,
    )  # fmt: skip


def sparse_adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, state_steps: list[int], *, eps: float, beta1: float,
    beta2: float, lr: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of `SparseAdam`."""
    states: dict[str, list[Any]] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    _step(
        SparseAdam, params, grads, states, eps=eps, lr=lr, maximize=maximize, betas=(beta1, beta2),
    )  # fmt: skip
