"""Sizes as one number, a pair, a list, a shape; words for a padding."""

from typing import assert_type

import flambeau as fl
from flambeau import Tensor, nn
from flambeau.nn import functional as F

x = fl.ones(1, 2, 8, 8)
pair: tuple[int, int] = (3, 3)
for layer in (
    nn.Conv2d(2, 2, 3, padding="same"),
    nn.Conv2d(2, 2, pair, stride=[1, 1], padding=pair, dilation=1),
    nn.Conv2d(2, 2, x.shape[:2], padding=1),
    nn.ConvTranspose2d(2, 2, 3, stride=(2, 2), padding=1, output_padding=[1, 1]),
):
    assert_type(layer(x), Tensor)
assert_type(nn.MaxPool2d(pair, stride=None)(x), Tensor)
assert_type(nn.AvgPool2d([2, 2])(x), Tensor)
assert_type(nn.Unfold(2, stride=pair)(x), Tensor)
assert_type(nn.ZeroPad2d((1, 0, 1, 0))(x), Tensor)
assert_type(F.max_pool2d(x, pair, stride=2), Tensor)
assert_type(F.max_pool2d(x, 2, return_indices=True), tuple[Tensor, Tensor])
assert_type(F.avg_pool2d(x, [2, 2], padding=(1, 1)), Tensor)
assert_type(F.lp_pool2d(x, 2.0, 2), Tensor)
assert_type(nn.AdaptiveAvgPool2d((None, 4))(x), Tensor)
assert_type(F.adaptive_avg_pool2d(x, 1), Tensor)
assert_type(nn.Upsample(scale_factor=2)(x), Tensor)
assert_type(F.interpolate(x, size=x.shape[2:], mode="bilinear"), Tensor)
