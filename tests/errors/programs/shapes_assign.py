"""Values that do not fit the place they are written to."""

import flambeau as fl

x = fl.zeros(4, 5)
x[1] = fl.ones(4)
