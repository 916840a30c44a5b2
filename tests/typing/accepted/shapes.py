"""Shapes are tuples of int; slices of them are shapes."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.zeros(2, 3, 4)
assert_type(x.shape, fl.Size)
assert_type(x.shape[0], int)
assert_type(x.shape[1:], fl.Size)
assert_type(x.size(), fl.Size)
assert_type(x.size(1), int)
assert_type(x.stride(), tuple[int, ...])
assert_type(x.stride(0), int)
n, c, w = x.shape
assert_type(n, int)
print(x.numel(), x.ndim, x.shape.numel(), n * c * w)
