"""Results of reductions, with and without dim."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.randn(3, 4)
assert_type(x.sum(), fl.Tensor)
assert_type(x.sum(dim=(0, 1), keepdim=True), fl.Tensor)
assert_type(x.mean(-1), fl.Tensor)
assert_type(x.max(), fl.Tensor)
largest = x.max(dim=1)
assert_type(largest.values, fl.Tensor)
assert_type(largest.indices, fl.Tensor)
values, indices = fl.min(x, 1, keepdim=True)
assert_type(values, fl.Tensor)
assert_type(x.amax(dim=0), fl.Tensor)
assert_type(x.argmax(dim=1), fl.Tensor)
print(values.shape, indices.dtype)
