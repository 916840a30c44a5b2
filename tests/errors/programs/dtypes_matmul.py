"""A product of two types."""

import flambeau as fl

fl.zeros(2, 3) @ fl.zeros(3, 2, dtype=fl.float64)
