"""A translator after GNMT (Wu et al. 2016), smaller: LSTMs with residuals, additive attention.

The decoder is fed the true sentence, so that prediction too is one pass over it (no beam search).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, labels

VOCABULARY = 8000
LENGTH = 25


def gnmt(T: Any) -> Any:
    """Four layers on each side, the encoder's first in both directions; 256 wide."""
    nn = T.nn

    class Attention(nn.Module):
        def __init__(self, size: int):
            super().__init__()
            self.query = nn.Linear(size, size, bias=False)
            self.key = nn.Linear(size, size)
            self.score = nn.Linear(size, 1, bias=False)

        def forward(self, query: Any, memory: Any) -> Any:
            pairs = T.tanh(self.query(query).unsqueeze(2) + self.key(memory).unsqueeze(1))
            weights = T.softmax(self.score(pairs).squeeze(-1), dim=-1)  # [B, T, S]
            return T.bmm(weights, memory)

    class Encoder(nn.Module):
        def __init__(self, size: int, n_layers: int, dropout: float):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, size)
            self.both_ways = nn.LSTM(size, size, batch_first=True, bidirectional=True)
            self.second = nn.LSTM(2 * size, size, batch_first=True)
            self.layers = nn.ModuleList(
                nn.LSTM(size, size, batch_first=True) for _ in range(n_layers - 2)
            )
            self.dropout = nn.Dropout(dropout)

        def forward(self, tokens: Any) -> Any:
            x, _ = self.both_ways(self.dropout(self.embedding(tokens)))
            x, _ = self.second(self.dropout(x))
            for layer in self.layers:
                x = x + layer(self.dropout(x))[0]
            return x

    class Decoder(nn.Module):
        def __init__(self, size: int, n_layers: int, dropout: float):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, size)
            self.first = nn.LSTM(size, size, batch_first=True)
            self.attention = Attention(size)
            self.layers = nn.ModuleList(
                nn.LSTM(2 * size, size, batch_first=True) for _ in range(n_layers - 1)
            )
            self.dropout = nn.Dropout(dropout)
            self.head = nn.Linear(size, VOCABULARY)

        def forward(self, tokens: Any, memory: Any) -> Any:
            x, _ = self.first(self.dropout(self.embedding(tokens)))
            context = self.attention(x, memory)
            for i, layer in enumerate(self.layers):
                out, _ = layer(T.cat((self.dropout(x), context), dim=-1))
                x = out if i == 0 else x + out
            return self.head(x)

    class GNMT(nn.Module):
        def __init__(self, size: int = 256, n_layers: int = 4, dropout: float = 0.2):
            super().__init__()
            self.encoder = Encoder(size, n_layers, dropout)
            self.decoder = Decoder(size, n_layers, dropout)
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.1, 0.1)

        def forward(self, source: Any, target: Any) -> Any:
            return self.decoder(target, self.encoder(source))

    return GNMT()


class Gnmt(Program):
    name = "gnmt"
    title = f"GNMT-like, 4+4 LSTMs of 256, length {LENGTH}, batch 32, Adam"
    item = "token"
    batch = 32
    items_per_sample = LENGTH
    clip = 5.0

    def networks(self) -> dict[str, Any]:
        return {"gnmt": gnmt(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        source, target = (labels(rng, VOCABULARY, n, length) for length in (LENGTH, LENGTH + 1))
        return (source, target[:, :-1].copy()), target[:, 1:].copy()

    def loss(self, output: Any, targets: Any) -> Any:
        logits = output.view(-1, VOCABULARY)
        return self.T.nn.functional.cross_entropy(logits, targets.view(-1), label_smoothing=0.1)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.Adam(parameters, lr=1e-4, **options)
