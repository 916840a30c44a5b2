"""Third derivatives of what has a kernel for its second ones, by finite differences (`Note [Second derivatives made of ops]`)."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.nn import functional as F

TARGETS = fl.tensor([[0, 3, 1], [1, 1, 0]])
RUNNING = fl.tensor([0.3, 0.9, 1.4, 0.6], dtype=fl.float64)

CASES = {
    "cross_entropy": lambda x, w: F.cross_entropy(x, TARGETS),
    "cross_entropy of rows": lambda x, w: F.cross_entropy(x[:, :, 0], TARGETS[:, 0], reduction="sum"),
    "cross_entropy of one": lambda x, w: F.cross_entropy(x[0, :, 0], TARGETS[0, 2]),
    "cross_entropy none, ignoring": lambda x, w: F.cross_entropy(x, TARGETS, reduction="none", ignore_index=1),
    "cross_entropy weighted, smooth": lambda x, w: F.cross_entropy(x, TARGETS, weight=RUNNING, ignore_index=3, label_smoothing=0.2),
    "cross_entropy smooth": lambda x, w: F.cross_entropy(x, TARGETS, label_smoothing=0.1, reduction="sum"),
    "layer_norm": lambda x, w: F.layer_norm(x, (4, 3)),
    "layer_norm, weighted": lambda x, w: F.layer_norm(x.transpose(1, 2), (4,), w, w * 2),
    "rms_norm": lambda x, w: F.rms_norm(x.transpose(1, 2), (4,), w, 1e-3),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "instance_norm": lambda x, w: F.instance_norm(x, weight=w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
    "batch_norm of rows": lambda x, w: F.batch_norm(x.transpose(1, 2).reshape(6, 4), None, None, training=True),
    "batch_norm, evaluation": lambda x, w: F.batch_norm(x, RUNNING, RUNNING, w, w).pow(3),
}


@pytest.mark.parametrize("name", CASES)
def test_third_derivatives(name):
    fl.manual_seed(0)
    x, w = fl.randn(2, 4, 3, dtype=fl.float64), RUNNING + 0.5
    directions = fl.randn_like(CASES[name](x, w)), fl.randn_like(x), fl.randn_like(w)

    def second(x, w, a, b, c):
        """The gradient by all of the gradient by x and w, in directions."""
        gx, gw = fl.autograd.grad((CASES[name](x, w) * a).sum(), (x, w), create_graph=True, materialize_grads=True)
        return fl.autograd.grad((gx * b).sum() + (gw * c).sum(), (x, w, a), create_graph=True, materialize_grads=True)

    fl.autograd.gradcheck(second, tuple(t.clone().requires_grad_() for t in (x, w, *directions)), atol=1e-6)
