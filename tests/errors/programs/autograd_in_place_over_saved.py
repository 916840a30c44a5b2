"""A result that the gradient needs is written over."""

import flambeau as fl


def gate(x):
    h = fl.sigmoid(x)
    out = h * x
    h += 1
    return out


x = fl.ones(3, requires_grad=True)
gate(x).sum().backward()
