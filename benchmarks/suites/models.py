"""Two small networks and their training step, written once against a library with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BATCH = 64


def mlp(tl: Any) -> Any:
    """784-256-10."""
    nn = tl.nn
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet(tl: Any) -> Any:
    """LeNet-5 with ReLU and max-pooling, for pictures of 28x28."""
    nn = tl.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [B, 6, 14, 14]
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [B, 16, 5, 5]
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def mlp_step(tl: Any) -> Callable[[], Any]:
    """One training step with Adam on a fixed batch."""
    tl.manual_seed(0)
    model = mlp(tl)
    optimizer = tl.optim.Adam(model.parameters(), lr=1e-3)
    return _step(tl, model, optimizer, tl.rand(BATCH, 784))


def lenet_step(tl: Any) -> Callable[[], Any]:
    """One training step with SGD on a fixed batch."""
    tl.manual_seed(0)
    model = lenet(tl)
    optimizer = tl.optim.SGD(model.parameters(), lr=0.01)
    return _step(tl, model, optimizer, tl.rand(BATCH, 1, 28, 28))


def _step(tl: Any, model: Any, optimizer: Any, inputs: Any) -> Callable[[], Any]:
    loss_fn = tl.nn.CrossEntropyLoss()
    targets = tl.randint(0, 10, (BATCH,))

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step
