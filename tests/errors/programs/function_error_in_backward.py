"""The backward of a custom function fails."""

import flambeau as fl


class Project(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return dy @ w, x.t() @ dy


x = fl.ones(2, 3, requires_grad=True)
w = fl.ones(3, 5, requires_grad=True)
y = Project.apply(x, w)
y.sum().backward()
