"""A mask of another shape."""

import flambeau as fl

x = fl.zeros(4, 5)
mask = fl.ones(4, 4, dtype=fl.bool)
x[mask]
