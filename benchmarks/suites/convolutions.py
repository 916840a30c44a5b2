"""Convolutions as they are in the middle of networks: what they read was made by a convolution, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.case import Case

SHAPES: list[tuple[str, tuple[int, ...], tuple[int, ...], int, int, int]] = [  # name, input, weight, stride, padding, dilation
    ("ResNet, 8 x 64 x 56 x 56 by 3 x 3", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    ("ResNet, 8 x 256 x 14 x 14 by 3 x 3", (8, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
    ("ResNet, 8 x 512 x 7 x 7 by 3 x 3", (8, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    ("VGG, 2 x 128 x 112 x 112 by 3 x 3", (2, 128, 112, 112), (128, 128, 3, 3), 1, 1, 1),
    ("U-Net, 8 x 32 x 128 x 128 by 3 x 3", (8, 32, 128, 128), (32, 32, 3, 3), 1, 1, 1),
    ("CIFAR, 32 x 16 x 32 x 32 by 3 x 3", (32, 16, 32, 32), (16, 16, 3, 3), 1, 1, 1),
    ("one picture, 1 x 64 x 28 x 28 by 3 x 3", (1, 64, 28, 28), (64, 64, 3, 3), 1, 1, 1),
    ("AlexNet, 32 x 64 x 27 x 27 by 5 x 5", (32, 64, 27, 27), (192, 64, 5, 5), 1, 2, 1),
    ("DCGAN, 32 x 128 x 16 x 16 by 4 x 4 by 2", (32, 128, 16, 16), (256, 128, 4, 4), 2, 1, 1),
    ("ResNet, 8 x 128 x 56 x 56 by 3 x 3 by 2", (8, 128, 56, 56), (128, 128, 3, 3), 2, 1, 1),
    ("dilated, 4 x 128 x 28 x 28 by 3 x 3", (4, 128, 28, 28), (128, 128, 3, 3), 1, 2, 2),
    ("4 x 64 x 28 x 28 by 7 x 7", (4, 64, 28, 28), (64, 64, 7, 7), 1, 3, 1),
    ("volumes, 2 x 64 x 8 x 28 x 28 by 3 x 3 x 3", (2, 64, 8, 28, 28), (64, 64, 3, 3, 3), 1, 1, 1),
    ("lines, 8 x 256 x 400 by 3", (8, 256, 400), (256, 256, 3), 1, 1, 1),
    ("vocoder, 2 x 128 x 2000 by 11, dilated by 3", (2, 128, 2000), (128, 128, 11), 1, 15, 3),
    ("ResNet, 8 x 256 x 56 x 56 by 1 x 1", (8, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1),
]


def _setup(x: tuple[int, ...], w: tuple[int, ...], stride: int, padding: int, dilation: int) -> Callable[[Any], dict[str, Any]]:
    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)
        axes = len(x) - 2
        conv = getattr(tl.nn.functional, f"conv{axes}d")

        def made(*sizes: int) -> Any:
            return conv(tl.randn(*sizes), tl.eye(sizes[1]).reshape(sizes[1], sizes[1], *(1,) * axes))

        data, weight = made(*x), tl.randn(*w) * 0.05
        leaf, weight_leaf = data.detach().requires_grad_(), weight.clone().requires_grad_()
        y_of_leaf, y_of_weight = (conv(a, b, None, stride, padding, dilation) for a, b in ((leaf, weight), (data, weight_leaf)))
        return {
            "tl": tl, "conv": conv, "x": data, "w": weight, "leaf": leaf, "weight": weight_leaf, "y_of_leaf": y_of_leaf,
            "y_of_weight": y_of_weight, "dy": made(*y_of_leaf.shape),
        }  # fmt: skip

    return setup


CASES = [
    Case(f"{name}, {what}", "ms", _setup(x, w, stride, padding, dilation), statement, max_ratio=1.15, headline=False)
    for name, x, w, stride, padding, dilation in SHAPES
    for what, statement in (
        ("forward", f"conv(x, w, None, {stride}, {padding}, {dilation})"),
        ("the input's gradient", "tl.autograd.grad(y_of_leaf, leaf, dy, retain_graph=True)"),
        ("the weight's gradient", "tl.autograd.grad(y_of_weight, weight, dy, retain_graph=True)"),
    )
]
