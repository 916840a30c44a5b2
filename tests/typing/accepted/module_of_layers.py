"""A module with typed attributes and a typed forward."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2, bias=False)

    def forward(self, x: fl.Tensor, scale: float = 1.0) -> fl.Tensor:
        return self.second(self.first(x).relu()) * scale


net = Net(8)
assert_type(net(fl.ones(3, 4)), fl.Tensor)
assert_type(net(fl.ones(3, 4), scale=2.0), fl.Tensor)
assert_type(net.first.weight, nn.Parameter)
print(net(fl.ones(3, 4)).shape)
