"""A result that does not fit the type that it is written to."""

import flambeau as fl

counts = fl.zeros(3, dtype=fl.int64)
counts += fl.tensor([0.5, 1.5, 2.5])
