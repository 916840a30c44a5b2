"""U-Net (Ronneberger et al. 2015), padded, with batch normalization; segments into two classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, labels, normal

SIZE = 128


def unet(T: Any) -> Any:
    """7.8 M parameters: 32 channels at the top, 512 at the bottom."""
    nn = T.nn

    class DoubleConv(nn.Sequential):
        def __init__(self, n_in: int, n_out: int):
            super().__init__(
                nn.Conv2d(n_in, n_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(inplace=True),
                nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(inplace=True),
            )

    class UNet(nn.Module):
        def __init__(self, n_in: int = 3, n_classes: int = 2, width: int = 32, depth: int = 4):
            super().__init__()
            widths = [width * 2**i for i in range(depth + 1)]
            self.first = DoubleConv(n_in, width)
            self.downs = nn.ModuleList(
                nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b))
                for a, b in zip(widths[:-1], widths[1:])
            )
            widths.reverse()
            self.ups = nn.ModuleList(
                nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in zip(widths[:-1], widths[1:])
            )
            self.convs = nn.ModuleList(DoubleConv(a, b) for a, b in zip(widths[:-1], widths[1:]))
            self.head = nn.Conv2d(width, n_classes, 1)

        def forward(self, x: Any) -> Any:
            skips = [self.first(x)]
            for down in self.downs:
                skips.append(down(skips[-1]))
            x = skips.pop()
            for up, conv in zip(self.ups, self.convs):
                x = conv(T.cat((skips.pop(), up(x)), dim=1))
            return self.head(x)

    return UNet()


class UNet(Program):
    name = "unet"
    title = f"U-Net, {SIZE}x{SIZE}, batch 8, SGD"
    item = "image"
    batch = 8
    images = True

    def networks(self) -> dict[str, Any]:
        return {"unet": unet(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (normal(rng, n, 3, SIZE, SIZE),), labels(rng, 2, n, SIZE, SIZE)

    def loss(self, output: Any, targets: Any) -> Any:
        return self.T.nn.functional.cross_entropy(output, targets)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.SGD(parameters, lr=0.01, momentum=0.9, **options)
