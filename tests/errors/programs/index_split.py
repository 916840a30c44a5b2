"""Sections that do not add up."""

import flambeau as fl

fl.zeros(10, 2).split([3, 3, 3])
