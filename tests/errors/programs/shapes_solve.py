"""A system with more equations than its right side has values."""

import flambeau as fl

fl.linalg.solve(fl.eye(4), fl.ones(3))
