"""A token that is not in the vocabulary."""

import flambeau as fl
from flambeau import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(1000, 16)

    def forward(self, x):
        return self.tokens(x).mean(1)


tokens = fl.tensor([[5, 17, 999], [3, 1000, 8]])
Model()(tokens)
