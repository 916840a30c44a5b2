"""Programs in processes of their own: their peak resident memory, and how long the import takes."""

from __future__ import annotations

from typing import Any

from suites import models
from suites.case import Case

STEPS = 50


def train_mlp(tl: Any) -> dict[str, Any]:
    """Fifty steps of the MLP."""
    step = models.mlp_step(tl)
    for _ in range(STEPS):
        step()
    return {}


def train_lenet(tl: Any) -> dict[str, Any]:
    """Fifty steps of LeNet."""
    step = models.lenet_step(tl)
    for _ in range(STEPS):
        step()
    return {}


CASES = [
    Case(f"MLP, {STEPS} steps: peak memory", "MB", train_mlp, fresh="peak", max_ratio=0.6),
    Case(f"LeNet, {STEPS} steps: peak memory", "MB", train_lenet, fresh="peak", max_ratio=0.6),
    Case("import", "s", lambda tl: {}, fresh="import", max_value=0.15),
]
