"""A function with a gradient of its own."""
from typing import Any

import flambeau as fl


class Clip(fl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: fl.Tensor, bound: float) -> fl.Tensor:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx: Any, dy: fl.Tensor) -> tuple[fl.Tensor, None]:
        (x,) = ctx.saved_tensors
        return dy * (x.abs() <= ctx.bound), None


def clip(x: fl.Tensor, bound: float = 1.0) -> fl.Tensor:
    result: fl.Tensor = Clip.apply(x, bound)
    return result


x = fl.tensor([0.5, 3.0], requires_grad=True)
clip(x).sum().backward()
print(x.grad)
