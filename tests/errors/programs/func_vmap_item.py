"""A number is taken out of a tensor inside of vmap."""

import flambeau as fl

fl.func.vmap(lambda x: x * x.sum().item())(fl.ones(4, 3))
