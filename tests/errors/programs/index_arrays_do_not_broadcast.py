"""Two lists of indices of different lengths."""

import flambeau as fl

x = fl.zeros(4, 5)
x[[0, 1, 2], [0, 1]]
