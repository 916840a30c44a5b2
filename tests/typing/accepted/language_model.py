"""Sampling from a model of characters."""
import flambeau as fl
from flambeau import nn


class Bigram(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary)

    def forward(self, ids: fl.Tensor, targets: fl.Tensor | None = None) -> tuple[fl.Tensor, fl.Tensor | None]:
        logits = self.table(ids)
        if targets is None:
            return logits, None
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @fl.no_grad()
    def generate(self, ids: fl.Tensor, n: int, temperature: float = 1.0) -> fl.Tensor:
        for _ in range(n):
            logits, _loss = self(ids)
            chosen = fl.multinomial((logits[:, -1] / temperature).softmax(-1), 1)
            ids = fl.cat([ids, chosen], dim=1)
        return ids


model = Bigram(5)
_, loss = model(fl.zeros(1, 3, dtype=fl.long), fl.zeros(1, 3, dtype=fl.long))
if loss is not None:
    loss.backward()
print(model.generate(fl.zeros(1, 1, dtype=fl.long), 4).shape)
