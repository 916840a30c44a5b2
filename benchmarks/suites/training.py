"""Whole training steps: zero_grad, forward, loss, backward, optimizer."""

from __future__ import annotations

from suites import models
from suites.case import Case

CASES = [
    Case(
        "MLP 784-256-10, batch 64, Adam: training step",
        "us",
        lambda tl: {"step": models.mlp_step(tl)},
        "step()",
        max_ratio=0.5,
    ),
    Case(
        "LeNet 28x28, batch 64, SGD: training step",
        "ms",
        lambda tl: {"step": models.lenet_step(tl)},
        "step()",
        max_ratio=0.8,
    ),
]
