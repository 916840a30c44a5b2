"""The value of a tensor that has none."""

import flambeau as fl

x = fl.zeros(2, 3, device="meta")
x.sum().item()
