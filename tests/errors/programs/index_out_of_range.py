"""An element behind the end."""

import flambeau as fl

x = fl.zeros(4, 5)
x[2, 5]
