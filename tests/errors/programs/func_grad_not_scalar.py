"""The gradient of a function with many results."""

import flambeau as fl

fl.func.grad(lambda x: x.sin())(fl.ones(3))
