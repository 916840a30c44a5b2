"""A loop over a tensor without dimensions."""

import flambeau as fl

for value in fl.tensor(3.0):
    print(value)
