"""A custom function gives back a gradient of the wrong shape."""

import flambeau as fl


class Row(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum(0)

    @staticmethod
    def backward(ctx, dy):
        return dy * fl.ones(2, 3, 1)


x = fl.ones(4, 3, requires_grad=True)
Row.apply(x).sum().backward()
