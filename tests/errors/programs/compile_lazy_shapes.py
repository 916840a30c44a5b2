"""A mistake while operations are recorded."""

import flambeau as fl

with fl.lazy():
    hidden = fl.ones(4, 8) @ fl.ones(8, 3)
    logits = hidden @ fl.ones(4, 2)
