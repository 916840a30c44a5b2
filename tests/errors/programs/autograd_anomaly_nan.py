"""Anomaly mode finds where NaN came from."""

import flambeau as fl


def distance(a, b):
    return (a - b).square().sum().sqrt() * 0.0


x = fl.ones(3, requires_grad=True)
with fl.autograd.set_detect_anomaly(True):
    loss = distance(x, fl.ones(3))
    loss.backward()
