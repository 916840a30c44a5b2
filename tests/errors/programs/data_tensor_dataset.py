"""Inputs and targets of different lengths."""

import flambeau as fl
from flambeau.utils.data import TensorDataset

TensorDataset(fl.zeros(100, 3), fl.zeros(99))
