"""A dataset without a length."""

import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __getitem__(self, i):
        return fl.tensor(i)


for batch in DataLoader(Numbers(), batch_size=4, shuffle=True):
    pass
