import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset


class Pairs(Dataset[tuple[fl.Tensor, int]]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> tuple[fl.Tensor, int]:
        return fl.ones(1), 0


for x, y, z in DataLoader(Pairs()):  # error: (3 expected)
    pass
for x, y in DataLoader(Pairs(), batchsize=2):  # error: No overload variant
    pass
