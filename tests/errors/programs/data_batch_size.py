"""A batch of no samples."""

from flambeau.utils.data import DataLoader

DataLoader([1, 2, 3], batch_size=0)
