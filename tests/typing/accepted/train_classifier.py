"""A training loop over batches of a dataset."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset


def train(model: nn.Module, loader: "DataLoader[tuple[fl.Tensor, ...]]", epochs: int) -> list[float]:
    optimizer = fl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    losses: list[float] = []
    for _ in range(epochs):
        for x, y in loader:
            assert_type(x, fl.Tensor)
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            assert_type(loss, fl.Tensor)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


data = TensorDataset(fl.randn(8, 4), fl.randint(0, 3, (8,)))
print(train(nn.Linear(4, 3), DataLoader(data, batch_size=4, shuffle=True), 2))
