"""A trainer that is generic in the model."""
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import flambeau as fl
from flambeau import nn

M = TypeVar("M", bound=nn.Module)
Batch = tuple[fl.Tensor, fl.Tensor]


class Trainer(Generic[M]):
    def __init__(self, model: M, loss: Callable[[M, Batch], fl.Tensor]) -> None:
        self.model, self.loss = model, loss
        self.optimizer = fl.optim.Adam(model.parameters())

    def fit(self, batches: Iterable[Batch]) -> M:
        for batch in batches:
            self.optimizer.zero_grad()
            self.loss(self.model, batch).backward()
            self.optimizer.step()
        return self.model


def squares(model: nn.Linear, batch: Batch) -> fl.Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


print(Trainer(nn.Linear(2, 1), squares).fit([(fl.ones(3, 2), fl.zeros(3, 1))]).weight.shape)
