"""Blocks in a ModuleList and a ModuleDict."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


class Stack(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x: fl.Tensor, head: str) -> fl.Tensor:
        for block in self.blocks:
            x = x + block(x)
        result: fl.Tensor = self.heads[head](x)
        return result


stack = Stack(2)
assert_type(stack.blocks[0], nn.Module)
assert_type(list(stack.heads.keys()), list[str])
print(stack(fl.ones(1, 4), "b").shape)
