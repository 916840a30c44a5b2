"""A number from a tensor of many."""

import flambeau as fl

losses = fl.tensor([0.3, 0.2, 0.1])
losses.item()
