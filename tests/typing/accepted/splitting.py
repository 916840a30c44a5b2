"""What takes tensors apart and puts them together."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.arange(12).view(3, 4)
assert_type(fl.cat([x, x], dim=0), fl.Tensor)
assert_type(fl.stack((x, x)), fl.Tensor)
assert_type(x.chunk(2, dim=1), tuple[fl.Tensor, ...])
assert_type(x.split([1, 3], dim=1), tuple[fl.Tensor, ...])
assert_type(x.unbind(0), tuple[fl.Tensor, ...])
a, b = fl.meshgrid(fl.arange(2), fl.arange(3), indexing="ij")
assert_type(a, fl.Tensor)
print(fl.einsum("ij,kj->ik", x.float(), x.float()).shape, b.shape)
