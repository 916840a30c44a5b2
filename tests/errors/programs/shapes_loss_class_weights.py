"""One class weight too few."""

import flambeau as fl
from flambeau.nn import functional as F

F.cross_entropy(fl.zeros(4, 10), fl.zeros(4, dtype=fl.int64), weight=fl.ones(9))
