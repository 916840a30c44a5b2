"""An IterableDataset."""
from collections.abc import Iterator

from typing_extensions import assert_type

import flambeau as fl
from flambeau.utils.data import DataLoader, IterableDataset


class Counting(IterableDataset[fl.Tensor]):
    def __init__(self, end: int) -> None:
        self.end = end

    def __iter__(self) -> Iterator[fl.Tensor]:
        for i in range(self.end):
            yield fl.tensor([float(i)])


for batch in DataLoader(Counting(5), batch_size=2):
    assert_type(batch, fl.Tensor)
    print(batch.shape)
