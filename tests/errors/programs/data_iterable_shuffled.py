"""A stream can not be shuffled."""

from flambeau.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


DataLoader(Stream(), shuffle=True)
