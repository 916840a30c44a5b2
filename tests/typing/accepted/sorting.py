"""Named results of sort, topk, kthvalue and median."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.randn(5, 6)
assert_type(x.sort(dim=1, descending=True).values, fl.Tensor)
assert_type(fl.topk(x, 2).indices, fl.Tensor)
assert_type(fl.argsort(x), fl.Tensor)
median = fl.median(x, dim=1)
assert_type(median.indices, fl.Tensor)
assert_type(x.kthvalue(2).values, fl.Tensor)
print(median.values.shape)
