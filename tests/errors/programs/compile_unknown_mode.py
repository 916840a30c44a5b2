"""A mode that does not exist."""

import flambeau as fl

fl.compile(lambda x: x * 2, mode="fastest")(fl.ones(3))
