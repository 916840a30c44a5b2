"""Sequences of different lengths in one batch of a worker."""

import flambeau as fl
from flambeau.utils.data import DataLoader

samples = [{"tokens": fl.ones(4 + i % 3), "label": i} for i in range(8)]
for batch in DataLoader(samples, batch_size=4, num_workers=1):
    pass
