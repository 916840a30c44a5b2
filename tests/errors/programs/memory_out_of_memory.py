"""A product of all pairs does not fit into memory."""

import flambeau as fl

points = fl.zeros(4_000_000, 3)
ranks = fl.zeros(4_000_000)
distances = (points[:, None] - points[None, :]).square()
