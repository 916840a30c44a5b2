"""A subclass of Optimizer."""
from collections.abc import Iterable

import flambeau as fl


class Plain(fl.optim.Optimizer):
    def __init__(self, params: Iterable[fl.Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @fl.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"])


w = fl.ones(2, requires_grad=True)
(w * 3).sum().backward()
Plain([w], lr=0.1).step()
print(w)
