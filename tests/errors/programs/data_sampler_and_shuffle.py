"""A sampler, and an order besides."""

import flambeau as fl
from flambeau.utils.data import DataLoader, RandomSampler

data = list(range(10))
DataLoader(data, sampler=RandomSampler(data), shuffle=True)
