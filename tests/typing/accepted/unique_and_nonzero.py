"""Flags that change the result change its type."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.tensor([3, 1, 3, 0])
assert_type(fl.unique(x), fl.Tensor)
assert_type(fl.unique(x, return_counts=True), tuple[fl.Tensor, fl.Tensor])
assert_type(x.unique(return_inverse=True, return_counts=True), tuple[fl.Tensor, fl.Tensor, fl.Tensor])
assert_type(fl.nonzero(x), fl.Tensor)
assert_type(x.nonzero(as_tuple=True), tuple[fl.Tensor, ...])
assert_type(fl.where(x > 1, x, 0), fl.Tensor)
print(fl.unique_consecutive(x))
