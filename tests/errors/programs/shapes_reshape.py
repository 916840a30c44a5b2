"""The elements do not fill the new shape."""

import flambeau as fl

x = fl.arange(24)
x.reshape(5, -1)
