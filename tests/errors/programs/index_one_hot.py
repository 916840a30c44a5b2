"""one_hot() with a class that is too large."""

import flambeau as fl
from flambeau.nn import functional as F

F.one_hot(fl.tensor([0, 3, 2]), num_classes=3)
