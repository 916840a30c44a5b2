"""A list where a tensor is wanted."""

import flambeau as fl

fl.softmax([1.0, 2.0, 3.0], dim=0)
