"""A forward that gives a tuple: the call gives it, too."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Linear(4, 2)
        self.value = nn.Linear(4, 1)

    def forward(self, x: fl.Tensor) -> tuple[fl.Tensor, fl.Tensor]:
        return self.policy(x), self.value(x).squeeze(-1)


logits, value = TwoHeads()(fl.zeros(5, 4))
assert_type(logits, fl.Tensor)
assert_type(value, fl.Tensor)
print(logits.shape, value.shape)
