"""AlexNet (Krizhevsky 2014, "one weird trick": one tower, no local response normalization)."""

from __future__ import annotations

from typing import Any

from models.program import Classifier


def alexnet(T: Any) -> Any:
    """61 M parameters."""
    nn = T.nn
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.AdaptiveAvgPool2d((6, 6)),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 1000),
    )


class AlexNet(Classifier):
    name = "alexnet"
    title = "AlexNet, 224x224, batch 32, SGD"
    batch = 32
    weight_decay = 5e-4

    def networks(self) -> dict[str, Any]:
        return {"alexnet": alexnet(self.T)}
