"""A tensor from lists of different lengths."""

import flambeau as fl

fl.tensor([[1, 2, 3], [4, 5]])
