"""A mask for more keys than there are."""

import flambeau as fl
from flambeau import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, mask):
        return self.attention(x, x, x, attn_mask=mask)[0]


mask = fl.zeros(12, 12)
Block()(fl.zeros(2, 10, 32), mask)
