"""ResNet-50 (He et al. 2016), the stride on the 3x3 convolution."""

from __future__ import annotations

from typing import Any

from models.program import Classifier


def resnet50(T: Any) -> Any:
    """25.6 M parameters."""
    nn = T.nn

    class Bottleneck(nn.Module):
        def __init__(self, n_in: int, width: int, stride: int):
            super().__init__()
            n_out = 4 * width
            self.conv1 = nn.Conv2d(n_in, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, n_out, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(n_out)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or n_in != n_out:
                self.downsample = nn.Sequential(
                    nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out)
                )

        def forward(self, x: Any) -> Any:
            identity = x if self.downsample is None else self.downsample(x)
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.relu(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            out += identity
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self, depths: tuple[int, ...] = (3, 4, 6, 3), n_classes: int = 1000):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
            blocks, n_in = [], 64
            for i, depth in enumerate(depths):
                width = 64 * 2**i
                for j in range(depth):
                    blocks.append(Bottleneck(n_in, width, stride=2 if i > 0 and j == 0 else 1))
                    n_in = 4 * width
            self.layers = nn.Sequential(*blocks)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(n_in, n_classes)
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.avgpool(self.layers(x))
            return self.fc(T.flatten(x, 1))

    return ResNet()


class ResNet50(Classifier):
    name = "resnet50"
    title = "ResNet-50, 224x224, batch 8, SGD"
    batch = 8

    def networks(self) -> dict[str, Any]:
        return {"resnet": resnet50(self.T)}
