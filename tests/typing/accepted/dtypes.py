"""dtypes are objects of fl.dtype."""
from typing_extensions import assert_type

import flambeau as fl


def size_of(dtype: fl.dtype, n: int) -> int:
    return dtype.itemsize * n


assert_type(fl.float32, fl.dtype)
assert_type(fl.float, fl.dtype)
assert_type(fl.ones(1).dtype, fl.dtype)
assert_type(fl.promote_types(fl.int32, fl.float16), fl.dtype)
assert_type(fl.finfo(fl.float32).eps, float)
x = fl.ones(2).to(fl.float64).to("cpu").to("cpu", fl.int32).to(fl.ones(1)).half().long()
print(size_of(x.dtype, x.numel()), x.dtype.is_floating_point, fl.iinfo(fl.int8).max)
