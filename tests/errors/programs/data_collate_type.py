"""A sample of a type that nobody knows how to put together."""

import flambeau as fl
from flambeau.utils.data import DataLoader


class Sample:
    def __init__(self, x):
        self.x = x


samples = [Sample(fl.zeros(3)) for _ in range(4)]
next(iter(DataLoader(samples, batch_size=2)))
