"""Neural collaborative filtering (NeuMF; He et al. 2017), with the sizes of MovieLens-20M."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, labels

N_USERS, N_ITEMS = 138_493, 26_744


def neumf(T: Any) -> Any:
    """A product of embeddings beside a perceptron over others; one logit per pair."""
    nn = T.nn

    class NeuMF(nn.Module):
        def __init__(self, factors: int = 64, layers: tuple[int, ...] = (256, 256, 128, 64)):
            super().__init__()
            self.mf_user = nn.Embedding(N_USERS, factors)
            self.mf_item = nn.Embedding(N_ITEMS, factors)
            self.mlp_user = nn.Embedding(N_USERS, layers[0] // 2)
            self.mlp_item = nn.Embedding(N_ITEMS, layers[0] // 2)
            self.mlp = nn.Sequential()
            for n_in, n_out in zip(layers[:-1], layers[1:]):
                self.mlp.append(nn.Linear(n_in, n_out))
                self.mlp.append(nn.ReLU())
            self.final = nn.Linear(layers[-1] + factors, 1)
            for table in (self.mf_user, self.mf_item, self.mlp_user, self.mlp_item):
                nn.init.normal_(table.weight, std=0.01)

        def forward(self, user: Any, item: Any) -> Any:
            product = self.mf_user(user) * self.mf_item(item)
            hidden = self.mlp(T.cat((self.mlp_user(user), self.mlp_item(item)), dim=1))
            return self.final(T.cat((product, hidden), dim=1)).squeeze(-1)

    return NeuMF()


class Ncf(Program):
    name = "ncf"
    title = "NCF (NeuMF, 32 M parameters), batch 4096, Adam"
    item = "sample"
    batch = 4096

    def networks(self) -> dict[str, Any]:
        return {"neumf": neumf(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        pairs = labels(rng, N_USERS, n), labels(rng, N_ITEMS, n)
        return pairs, labels(rng, 2, n).astype(np.float32)

    def loss(self, output: Any, targets: Any) -> Any:
        return self.T.nn.functional.binary_cross_entropy_with_logits(output, targets)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.Adam(parameters, lr=1e-4, **options)
