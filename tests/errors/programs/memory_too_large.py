"""A size with too many zeros."""

import flambeau as fl
from flambeau import nn

nn.Embedding(50_000_000_000, 100_000)
