"""A language model of two LSTM layers (Zaremba et al. 2014, medium), its state kept between steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, labels

VOCABULARY = 10_000
LENGTH = 35
WIDTH = 650


def lstm_lm(T: Any) -> Any:
    """13 M parameters; the head's weight is the embedding's."""
    nn = T.nn

    class LanguageModel(nn.Module):
        def __init__(self, n_layers: int = 2, dropout: float = 0.5):
            super().__init__()
            self.dropout = nn.Dropout(dropout)
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.lstm = nn.LSTM(WIDTH, WIDTH, n_layers, dropout=dropout)
            self.head = nn.Linear(WIDTH, VOCABULARY)
            self.head.weight = self.embedding.weight
            nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
            nn.init.zeros_(self.head.bias)

        def forward(self, tokens: Any, state: Any = None) -> Any:
            x, state = self.lstm(self.dropout(self.embedding(tokens)), state)
            return self.head(self.dropout(x)), state

    return LanguageModel()


class LstmLm(Program):
    name = "lstm_lm"
    title = f"LSTM language model, 2 layers of {WIDTH}, length {LENGTH}, batch 20, SGD"
    item = "token"
    batch = 20
    items_per_sample = LENGTH
    clip = 0.25
    state: Any = None

    def networks(self) -> dict[str, Any]:
        return {"lstm": lstm_lm(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        tokens = labels(rng, VOCABULARY, LENGTH + 1, n)
        return (tokens[:-1].copy(),), tokens[1:].copy()

    def loss(self, output: Any, targets: Any) -> Any:
        logits, state = output
        self.state = tuple(part.detach() for part in state)
        return self.T.nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.SGD(parameters, lr=1.0, **options)
