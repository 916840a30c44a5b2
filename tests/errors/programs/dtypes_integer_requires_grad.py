"""An integer that should have a gradient."""

import flambeau as fl

fl.tensor([1, 2, 3], requires_grad=True)
