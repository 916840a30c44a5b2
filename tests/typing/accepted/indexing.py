"""All that may stand in brackets."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.arange(24).view(2, 3, 4)
assert_type(x[0], fl.Tensor)
assert_type(x[:, 1:, ::2], fl.Tensor)
assert_type(x[..., None], fl.Tensor)
assert_type(x[x > 3], fl.Tensor)
assert_type(x[fl.tensor([0, 1])], fl.Tensor)
assert_type(x[[0, 1], [1, 2]], fl.Tensor)
x[0, 0] = 7
x[:, 1] = fl.zeros(2, 4, dtype=fl.int64)
for row in x:
    assert_type(row, fl.Tensor)
print(x[-1, -1, -1].item(), len(x))
