"""More indices than dimensions."""

import flambeau as fl

x = fl.zeros(4, 5)
x[0, 1, 2]
