"""A keyword that is spelled otherwise."""

import flambeau as fl

fl.zeros(3).sum(axes=0)
