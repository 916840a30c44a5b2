"""MobileNetV2 (Sandler et al. 2018)."""

from __future__ import annotations

from typing import Any

from models.program import Classifier

# expansion, channels, blocks, stride of the first
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(T: Any) -> Any:
    """3.5 M parameters."""
    nn = T.nn

    class ConvBNReLU(nn.Sequential):
        def __init__(self, n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1):
            super().__init__(
                nn.Conv2d(
                    n_in, n_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False
                ),
                nn.BatchNorm2d(n_out),
                nn.ReLU6(inplace=True),
            )

    class InvertedResidual(nn.Module):
        def __init__(self, n_in: int, n_out: int, stride: int, expansion: int):
            super().__init__()
            hidden = n_in * expansion
            self.residual = stride == 1 and n_in == n_out
            self.conv = nn.Sequential(
                *([ConvBNReLU(n_in, hidden, 1)] if expansion > 1 else []),
                ConvBNReLU(hidden, hidden, 3, stride, groups=hidden),
                nn.Conv2d(hidden, n_out, 1, bias=False),
                nn.BatchNorm2d(n_out),
            )

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.residual else self.conv(x)

    class MobileNetV2(nn.Module):
        def __init__(self, n_classes: int = 1000):
            super().__init__()
            features = [ConvBNReLU(3, 32, 3, stride=2)]
            n_in = 32
            for expansion, width, depth, stride in STAGES:
                for j in range(depth):
                    block_stride = stride if j == 0 else 1
                    features.append(InvertedResidual(n_in, width, block_stride, expansion))
                    n_in = width
            features.append(ConvBNReLU(n_in, 1280, 1))
            self.features = nn.Sequential(*features)
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, n_classes))
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out")
                elif isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.01)
                    nn.init.zeros_(module.bias)

        def forward(self, x: Any) -> Any:
            x = self.features(x)
            x = T.nn.functional.adaptive_avg_pool2d(x, (1, 1))
            return self.classifier(T.flatten(x, 1))

    return MobileNetV2()


class MobileNet(Classifier):
    name = "mobilenet"
    title = "MobileNetV2, 224x224, batch 16, SGD"
    batch = 16
    weight_decay = 4e-5

    def networks(self) -> dict[str, Any]:
        return {"mobilenet": mobilenet_v2(self.T)}
