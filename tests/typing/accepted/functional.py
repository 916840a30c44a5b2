"""nn.functional's results."""
from typing_extensions import assert_type

import flambeau as fl
import flambeau.nn.functional as F

x = fl.randn(2, 3, 8, 8)
assert_type(F.max_pool2d(x, 2), fl.Tensor)
assert_type(F.max_pool2d(x, 2, return_indices=True), tuple[fl.Tensor, fl.Tensor])
assert_type(F.interpolate(x, scale_factor=2.0, mode="nearest"), fl.Tensor)
assert_type(F.pad(x, (1, 1)), fl.Tensor)
assert_type(F.softmax(x, dim=1), fl.Tensor)
assert_type(F.one_hot(fl.tensor([0, 2]), 3), fl.Tensor)
assert_type(F.dropout(x, p=0.5, training=True), fl.Tensor)
assert_type(F.mse_loss(x, fl.zeros_like(x)), fl.Tensor)
assert_type(F.normalize(x, dim=-1), fl.Tensor)
print(F.layer_norm(x, (8, 8)).shape)
