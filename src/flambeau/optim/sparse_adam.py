"""Adam for gradients that are sparse."""

from __future__ import annotations

import math

from flambeau._C import Tensor
from flambeau.optim._plans import Entries
from flambeau.optim._rows import Rows
from flambeau.optim.optimizer import Optimizer, Params, advance, decay_rates, start_state
from flambeau.sparse import SparseTensor


class SparseAdam(Optimizer):
    """Adam that moves only the rows for which a sparse gradient has values, and only their moments.

    m <- m + (1 - beta1) (g - m); v <- v + (1 - beta2) (g^2 - v); p <- p - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps),
    where t counts the parameter's steps and not those of a row. A step costs by the rows of the gradient, not by those of the parameter.

    Args:
        params: dense tensors whose gradients are sparse, as that of an `Embedding` with `sparse=True`.
        maximize: goes along the gradient.

    Raises:
        ValueError: an lr or eps that is not above 0, a beta outside of [0, 1), or a parameter that is sparse itself.
        RuntimeError: in a step, a gradient that is dense.

    Source: Kingma and Ba 2015, algorithm 1, lazily.

    Example:
        >>> import flambeau as fl
        >>> words = fl.nn.Embedding(1000, 2, sparse=True, _weight=fl.zeros(1000, 2))
        >>> optimizer = fl.optim.SparseAdam(words.parameters(), lr=0.5)
        >>> words(fl.tensor([3, 7])).sum().backward()
        >>> optimizer.step()
        >>> words.weight.abs().sum(1).nonzero().flatten()
        tensor([3, 7])
    """

    _fl_sparse_gradients = "required"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps)):
            if not float(value) > 0.0:
                raise ValueError(
                    f"SparseAdam: Invalid {'learning rate' if name == 'lr' else 'epsilon value'}: {value}; expected {name} > 0"
                )
        super().__init__(params, {"lr": lr, "betas": decay_rates("SparseAdam", betas), "eps": eps, "maximize": maximize})
        for i, group in enumerate(self.param_groups):
            for k, param in enumerate(group["params"]):
                if isinstance(param, SparseTensor):
                    raise ValueError(
                        f"SparseAdam: parameter {k} of group {i} (shape {list(param.shape)}) is sparse; SparseAdam requires dense "
                        "parameters, with sparse gradients"
                    )

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None:
        state.setdefault("step", 0)  # PyTorch has no tensor here
        start_state(param, state, "exp_avg", "exp_avg_sq")

    def _fl_update_sparse(self, group: Entries, param: Tensor, state: Entries, grad: SparseTensor) -> None:
        self._fl_init_state(group, param, state)
        step = advance(state)
        rows = Rows(grad, group["maximize"])
        if not rows.values.numel():
            return
        beta1, beta2 = group["betas"]
        mean, square = rows.of(state["exp_avg"]), rows.of(state["exp_avg_sq"])
        mean += (rows.values - mean).mul_(1 - beta1)
        square += (rows.values.square() - square).mul_(1 - beta2)
        rows.put(state["exp_avg"], mean)
        rows.put(state["exp_avg_sq"], square)
        rate = float(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        rows.add(param, mean.div_(square.sqrt_().add_(group["eps"])).mul_(-rate))
