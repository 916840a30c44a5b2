"""Expanding a dimension that is not one."""

import flambeau as fl

fl.zeros(3, 4).expand(3, 8)
