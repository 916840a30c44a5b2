"""VGG-19 (Simonyan and Zisserman 2015, configuration E), without normalization."""

from __future__ import annotations

from typing import Any

from models.program import Classifier

STAGES = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))  # convolutions, channels


def vgg19(T: Any) -> Any:
    """144 M parameters."""
    nn = T.nn
    layers: list[Any] = []
    n_in = 3
    for depth, width in STAGES:
        for _ in range(depth):
            layers += [nn.Conv2d(n_in, width, 3, padding=1), nn.ReLU(inplace=True)]
            n_in = width
        layers.append(nn.MaxPool2d(2, stride=2))
    model = nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 1000),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
            nn.init.zeros_(module.bias)
    return model


class Vgg19(Classifier):
    name = "vgg19"
    title = "VGG-19, 224x224, batch 2, SGD"
    batch = 2
    weight_decay = 5e-4

    def networks(self) -> dict[str, Any]:
        return {"vgg": vgg19(self.T)}
