"""Steps that gradients go through: `differentiable=True`.

The fused steps write in place, outside of the graph. Here each is written with tensor operations, out of place, so that the graph of a
step keeps what it read, however many steps follow. Only the parameter itself is written, at the end, and has the step as its history:

    p = p0.clone();  p.grad = g(p0);  step()  ->  p = p0 - lr f(g(p0), states, lr)  ->  backward reaches p0, g, lr and the states
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.optim._numbers import number_of, number_tensor

Formula = Callable[[dict[str, Any], Tensor, Tensor, dict[str, Any], int], Any]


def step_in_graph(name: str, group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
    """One step over one parameter, whose states become results of operations."""
    old = param.clone()  # what the graph keeps of it
    own = state
    if param.is_complex():
        old, grad, state = ops.view_as_real(old), ops.view_as_real(grad), pairs_of(state)
    if group.get("maximize"):
        grad = -grad
    decay = group.get("weight_decay", 0)
    if decay and group.get("decoupled_weight_decay"):
        new = old * (1 - group["lr"] * decay)
    else:
        new = old
        if decay:
            grad = grad + old * decay
    t = 1
    if "step" in state:
        t = int(number_of(state["step"])) + 1
        state["step"] = number_tensor(t)
    new = new - FORMULAS[name](group, old, grad, state, t)
    if state is not own:
        new = ops.view_as_complex(new)
        own.update((k, ops.view_as_complex(v) if getattr(v, "shape", None) == old.shape else v) for k, v in state.items())
    param.copy_(new)


def pairs_of(state: dict[str, Any]) -> dict[str, Any]:
    """The states of a complex parameter as views of pairs: its real and imaginary parts move each on their own."""
    return {k: ops.view_as_real(v) if isinstance(v, Tensor) and v.is_complex() else v for k, v in state.items()}


def _mean(state: dict[str, Any], name: str, value: Tensor, keep: float) -> Tensor:
    """The running mean of a state, after one value more."""
    state[name] = state[name] * keep + value * (1 - keep)
    return state[name]  # type: ignore[no-any-return]


def _sgd(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    if momentum := group["momentum"]:
        last = state.get("momentum_buffer")
        state["momentum_buffer"] = grad.clone() if last is None else last * momentum + grad * (1 - group["dampening"])
        grad = grad + state["momentum_buffer"] * momentum if group["nesterov"] else state["momentum_buffer"]
    return grad * group["lr"]


def _adam(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    beta1, beta2 = group["betas"]
    mean, square = _mean(state, "exp_avg", grad, beta1), _mean(state, "exp_avg_sq", grad * grad, beta2)
    if group["amsgrad"]:
        square = state["max_exp_avg_sq"] = ops.maximum(state["max_exp_avg_sq"], square)
    return mean / (square.sqrt() / math.sqrt(1 - beta2**t) + group["eps"]) * (group["lr"] / (1 - beta1**t))


def _adagrad(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    state["sum"] = state["sum"] + grad * grad
    return grad / (state["sum"].sqrt() + group["eps"]) * (group["lr"] / (1 + (t - 1) * group["lr_decay"]))


def _rmsprop(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    square = _mean(state, "square_avg", grad * grad, group["alpha"])
    if group["centered"]:
        mean = _mean(state, "grad_avg", grad, group["alpha"])
        square = square - mean * mean
    move = grad / (square.sqrt() + group["eps"])
    if group["momentum"] > 0:
        move = state["momentum_buffer"] = state["momentum_buffer"] * group["momentum"] + move
    return move * group["lr"]


def _adadelta(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    square = _mean(state, "square_avg", grad * grad, group["rho"])
    move = (state["acc_delta"] + group["eps"]).sqrt() / (square + group["eps"]).sqrt() * grad
    _mean(state, "acc_delta", move * move, group["rho"])
    return move * group["lr"]


def _adamax(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    beta1, beta2 = group["betas"]
    mean = _mean(state, "exp_avg", grad, beta1)
    state["exp_inf"] = ops.maximum(state["exp_inf"] * beta2, grad.abs() + group["eps"])
    return mean / state["exp_inf"] * (group["lr"] / (1 - beta1**t))


def _nadam(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    beta1, beta2 = group["betas"]
    now, then = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (t, t + 1))
    product = number_of(state["mu_product"]) * now
    state["mu_product"] = number_tensor(product)
    mean, square = _mean(state, "exp_avg", grad, beta1), _mean(state, "exp_avg_sq", grad * grad, beta2)
    move = grad * ((1 - now) / (1 - product)) + mean * (then / (1 - product * then))
    return move / ((square / (1 - beta2**t)).sqrt() + group["eps"]) * group["lr"]


def _radam(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    beta1, beta2 = group["betas"]
    mean, square = _mean(state, "exp_avg", grad, beta1), _mean(state, "exp_avg_sq", grad * grad, beta2)
    most = 2 / (1 - beta2) - 1
    length = most - 2 * t * beta2**t / (1 - beta2**t)
    move = mean * (group["lr"] / (1 - beta1**t))
    if length <= 5:
        return move
    rect = math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
    return move * (rect * math.sqrt(1 - beta2**t)) / (square.sqrt() + group["eps"])


def _asgd(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    eta, mu, lambd = number_of(state["eta"]), number_of(state["mu"]), group["lambd"]
    move = param * (lambd * eta) + grad * eta
    new = param - move
    state["ax"] = new if mu == 1 else state["ax"] + (new - state["ax"]) * mu
    lr = float(group["lr"])
    state["eta"] = number_tensor(lr / (1 + lambd * lr * t) ** group["alpha"])
    state["mu"] = number_tensor(1 / max(1, t - group["t0"]))
    return move


def _rprop(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any], t: int) -> Any:
    shrink, grow = group["etas"]
    product = (grad * state["prev"]).detach()
    factor = ops.ones_like(product).masked_fill_(product > 0, grow).masked_fill_(product < 0, shrink)
    state["step_size"] = (state["step_size"] * factor).clamp(*group["step_sizes"])
    state["prev"] = grad.masked_fill(product < 0, 0)
    return state["prev"].sign() * state["step_size"]


FORMULAS: dict[str, Formula] = {
    "SGD": _sgd, "Adam": _adam, "AdamW": _adam, "Adagrad": _adagrad, "RMSprop": _rmsprop, "Adadelta": _adadelta, "Adamax": _adamax,
    "NAdam": _nadam, "RAdam": _radam, "ASGD": _asgd, "Rprop": _rprop,
}  # fmt: skip
