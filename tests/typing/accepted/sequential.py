"""Indices, slices and calls of a Sequential."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn

net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
assert_type(net(fl.ones(1, 2)), fl.Tensor)
assert_type(net[0], nn.Module)
assert_type(net[:2], nn.Sequential)
assert_type(len(net), int)
for layer in net:
    assert_type(layer, nn.Module)
print(net[1:](fl.ones(1, 3)).shape)
