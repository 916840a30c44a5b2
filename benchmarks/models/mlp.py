"""A multilayer perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, labels, normal


def mlp(T: Any) -> Any:
    """784-2048-2048-10."""
    nn = T.nn
    return nn.Sequential(
        nn.Linear(784, 2048),
        nn.ReLU(),
        nn.Linear(2048, 2048),
        nn.ReLU(),
        nn.Linear(2048, 10),
    )


class Mlp(Program):
    name = "mlp"
    title = "MLP 784-2048-2048-10, batch 128, Adam"
    item = "sample"
    batch = 128

    def networks(self) -> dict[str, Any]:
        return {"mlp": mlp(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (normal(rng, n, 784),), labels(rng, 10, n)

    def loss(self, output: Any, targets: Any) -> Any:
        return self.T.nn.functional.cross_entropy(output, targets)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.Adam(parameters, lr=1e-5, **options)
