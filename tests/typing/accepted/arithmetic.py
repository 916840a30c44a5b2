"""Operators with tensors, numbers and arrays on both sides."""
import numpy as np
from typing_extensions import assert_type

import flambeau as fl

x = fl.ones(2, 2)
assert_type(x + 1, fl.Tensor)
assert_type(2.5 * x, fl.Tensor)
assert_type(1 / x - x**2, fl.Tensor)
assert_type(x @ x, fl.Tensor)
assert_type(-x, fl.Tensor)
assert_type(x > 0, fl.Tensor)
assert_type((x > 0) & (x < 2) | ~(x == 1), fl.Tensor)
assert_type(x + np.ones((2, 2), dtype=np.float32), fl.Tensor)
assert_type(x % 2 // 1, fl.Tensor)
assert_type(abs(x), fl.Tensor)
x += 1
assert_type(x, fl.Tensor)
print(x)
