"""A custom function without a backward."""

import flambeau as fl


class Floor(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.floor()


Floor.apply(fl.ones(2, requires_grad=True)).sum().backward()
