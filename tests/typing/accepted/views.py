"""Every way to write a size."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.arange(24)
assert_type(x.view(2, 3, 4), fl.Tensor)
assert_type(x.view((4, 6)), fl.Tensor)
assert_type(x.view(-1), fl.Tensor)
assert_type(x.reshape([2, 12]), fl.Tensor)
y = x.view(2, 3, 4).permute(2, 0, 1).contiguous().flatten(1).unsqueeze(0).transpose(0, 1)
assert_type(y, fl.Tensor)
assert_type(x.view(4, 6).expand(2, 4, 6), fl.Tensor)
assert_type(x.view(fl.int32), fl.Tensor)
print(y.shape)
