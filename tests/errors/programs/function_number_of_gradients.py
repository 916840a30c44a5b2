"""A custom function gives back one gradient too few."""

import flambeau as fl


class Scale(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    def backward(ctx, dy):
        x, factor = ctx.saved_tensors
        return dy * factor


x = fl.ones(3, requires_grad=True)
Scale.apply(x, fl.tensor(2.0)).sum().backward()
