"""compile keeps the type of what it is given."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


@fl.compile
def squared(x: fl.Tensor, times: int = 2) -> fl.Tensor:
    return (x * times) ** 2


@fl.compile(mode="replay")
def shifted(x: fl.Tensor) -> fl.Tensor:
    return x + 1


assert_type(squared(fl.ones(2), times=3), fl.Tensor)
assert_type(shifted(fl.ones(2)), fl.Tensor)
model = fl.compile(nn.Linear(2, 2))
assert_type(model(fl.ones(1, 2)), fl.Tensor)
with fl.lazy():
    y = (fl.ones(3) * 2).relu()
print(y, model(fl.ones(1, 2)).shape)
