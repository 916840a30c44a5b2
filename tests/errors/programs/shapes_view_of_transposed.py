"""A view of what does not lie in order."""

import flambeau as fl

x = fl.zeros(4, 6).t()
x.view(24)
