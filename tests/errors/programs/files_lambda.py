"""Something is saved that is no data."""

import flambeau as fl

fl.save({"weight": fl.zeros(2), "schedule": lambda step: 0.1 * step}, "checkpoint.pt")
