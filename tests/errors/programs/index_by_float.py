"""An index that is a float."""

import flambeau as fl

x = fl.zeros(10)
x[len(x) / 2]
