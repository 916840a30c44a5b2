"""A list of indices with one too large."""

import flambeau as fl

x = fl.zeros(4, 5)
x[[0, 2, 4]]
