"""A sample can not be read in a worker."""

import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        labels = {0: "cat", 1: "dog", 2: "cow"}
        return fl.zeros(3), labels[i]


for images, labels in DataLoader(Images(), batch_size=2, num_workers=1):
    pass
