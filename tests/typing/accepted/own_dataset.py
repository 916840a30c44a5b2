"""A dataset of pairs, split and loaded."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset, Subset, random_split


class Squares(Dataset[tuple[fl.Tensor, int]]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[fl.Tensor, int]:
        return fl.full((2,), float(index)), index * index


train, test = random_split(Squares(10), [0.8, 0.2])
assert_type(train, Subset[tuple[fl.Tensor, int]])
assert_type(train[0][1], int)
for x, y in DataLoader(train, batch_size=4, num_workers=1):
    assert_type(x, fl.Tensor)
    assert_type(y, fl.Tensor)
    print(x.shape, y.shape)
