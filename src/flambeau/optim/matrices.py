"""Adafactor and Muon: optimizers that treat a matrix as a matrix."""

from __future__ import annotations

import math
from typing import Any

from flambeau._C import DTypeError, Tensor, bfloat16, ops
from flambeau._info import finfo
from flambeau.optim._plans import Entries
from flambeau.optim.adaptive import _ByParameter
from flambeau.optim.optimizer import Params, checked_pair, non_negative, start_state


class Adafactor(_ByParameter):
    """Adam's second moments of a matrix from those of its rows and columns, without momentum: n + m numbers instead of n m.

    Args:
        lr: the largest relative step; it falls as 1 / sqrt(t).
        beta2_decay: the weight of the newest square is t^beta2_decay.
        eps: the smallest root mean square of gradients (default: the rounding of their type), and of parameters.
        d: updates whose root mean square is above are scaled down to it.

    Raises:
        ValueError: an option out of its range.

    Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018, algorithms 4 and 5.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        checked_pair("Adafactor", "eps", eps)
        non_negative("Adafactor", lr=lr, weight_decay=weight_decay, **{f"eps[{i}]": e for i, e in enumerate(eps) if e is not None})
        if not beta2_decay <= 0:
            raise ValueError(f"Adafactor: beta2_decay = {beta2_decay}; expected <= 0")
        if not d >= 1:
            raise ValueError(f"Adafactor: d = {d}; expected >= 1")
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**options, "foreach": foreach, "maximize": maximize})

    _fl_decays = True

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        start_state(param, state)
        x = param.detach()
        if x.ndim > 1:
            state.setdefault("row_var", x.new_zeros((*x.shape[:-1], 1)))
            state.setdefault("col_var", x.new_zeros((*x.shape[:-2], 1, x.shape[-1])))
        else:
            state.setdefault("variance", ops.zeros_like(x))

    def _fl_second_moment(self, grad: Tensor, state: Entries, weight: float, eps: float) -> Tensor:
        squares = grad.square()
        if grad.ndim <= 1:
            variance: Tensor = state["variance"].lerp_(squares, weight)
            return variance.clone()
        row: Tensor = state["row_var"].lerp_(squares.mean(-1, keepdim=True), weight)
        column: Tensor = state["col_var"].lerp_(squares.mean(-2, keepdim=True), weight)
        return (row @ column).div_(row.mean(-2, keepdim=True).clamp_(min=eps))

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        if param.numel() == 0:
            return
        step = float(numbers[0])
        eps = finfo(param.dtype).eps if group["eps"][0] is None else group["eps"][0]
        size = math.sqrt(param.numel())
        alpha = max(group["eps"][1], param.norm().item() / size) * min(float(group["lr"]), 1 / math.sqrt(step))
        if group["weight_decay"]:
            param.mul_(1 - float(group["lr"]) * group["weight_decay"])
        moment = self._fl_second_moment(grad, state, step ** group["beta2_decay"], eps)
        update = moment.clamp_(min=eps * eps).rsqrt_().mul_(grad)
        param.add_(update, alpha=-alpha / max(1.0, update.norm().item() / (size * group["d"])))


class Muon(_ByParameter):
    """Momentum of a matrix [n, m], made nearly orthogonal by Newton-Schulz iterations in bfloat16.

    For the matrices of hidden layers; vectors, embeddings and heads are left to another optimizer.

    Args:
        ns_coefficients: a, b and c of an iteration X <- a X + (b X X^T + c (X X^T)^2) X.
        ns_steps: how many iterations, below 100.
        adjust_lr_fn: 'original' (the default) scales lr by sqrt(max(1, n / m)), 'match_rms_adamw' by 0.2 sqrt(max(n, m)).

    Raises:
        ValueError: an option out of its range, or a parameter that is no matrix.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is scalable for LLM
    training", arXiv:2502.16982 ('match_rms_adamw').
    """

    _fl_names = ("momentum_buffer",)
    _fl_scalars = ()
    _fl_decays = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        options = non_negative("Muon", lr=lr, weight_decay=weight_decay, momentum=momentum)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Muon: adjust_lr_fn = {adjust_lr_fn!r}; expected None, 'original' or 'match_rms_adamw'")
        if not 0 <= ns_steps < 100:
            raise ValueError(f"Muon: ns_steps = {ns_steps}; expected 0 <= ns_steps < 100")
        if len(ns_coefficients) != 3:
            raise ValueError(f"Muon: ns_coefficients = {ns_coefficients}; expected three numbers")
        more = {"nesterov": nesterov, "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, {**options, **more})

    def add_param_group(self, param_group: Entries) -> None:
        params = param_group["params"]
        given = list(params) if not isinstance(params, Tensor) else [params]
        param_group = {**param_group, "params": given}
        for i, item in enumerate(given):
            tensor = item[1] if isinstance(item, tuple) else item
            if isinstance(tensor, Tensor) and tensor.is_complex():
                raise DTypeError(f"Muon: parameter {i} is {tensor.dtype}; expected real numbers")
            if isinstance(tensor, Tensor) and tensor.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {list(tensor.shape)}, parameter {i}"
                )
        super().add_param_group(param_group)

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = ops.zeros_like(param.detach())

    def _fl_move(self, group: Entries, param: Tensor, grad: Tensor, state: Entries, numbers: tuple[Any, ...]) -> None:
        buffer = state["momentum_buffer"]
        buffer.lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        n, m = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(n, m))
        else:
            ratio = math.sqrt(max(1, n / max(m, 1)))
        if group["weight_decay"]:
            param.mul_(1 - float(group["lr"]) * group["weight_decay"])
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.add_(update.to(param.dtype), alpha=-float(group["lr"]) * ratio)


def _orthogonal(x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """U V^T of x = U S V^T, roughly: its singular values end between about 0.7 and 1.2."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = x.to(bfloat16)
    y = y.T if tall else y
    y = y / y.norm().clamp(min=eps)  # no singular value is above 1
    for _ in range(steps):
        gram = y @ y.T
        y = ops.addmm(y, ops.addmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y.T if tall else y
