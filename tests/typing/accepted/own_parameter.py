"""A layer with parameters of its own."""
import math

from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


class LowRank(nn.Module):
    def __init__(self, n: int, m: int, rank: int) -> None:
        super().__init__()
        self.a = nn.Parameter(fl.empty(n, rank))
        self.b = nn.Parameter(fl.zeros(rank, m), requires_grad=True)
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        return x @ self.a @ self.b

    def extra_repr(self) -> str:
        return f"rank={self.a.shape[1]}"


layer = LowRank(4, 3, 2)
assert_type(layer.a, nn.Parameter)
print(layer, sum(p.numel() for p in layer.parameters()))
