"""An LSTM gets other features than it was made for."""

import flambeau as fl
from flambeau import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 24)
        self.lstm = nn.LSTM(32, 64, batch_first=True)

    def forward(self, tokens):
        return self.lstm(self.embedding(tokens))[0]


Tagger()(fl.zeros(4, 7, dtype=fl.int64))
