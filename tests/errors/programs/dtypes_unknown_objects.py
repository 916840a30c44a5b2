"""A tensor from something that is no number."""

import flambeau as fl

fl.tensor([1.0, None, 3.0])
