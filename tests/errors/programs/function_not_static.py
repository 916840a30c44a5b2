"""A custom function is made and called like a module."""

import flambeau as fl


class Double(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


Double()(fl.ones(2, requires_grad=True))
