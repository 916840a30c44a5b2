"""A target of fewer rows is broadcast."""

import flambeau as fl
from flambeau.nn import functional as F

F.l1_loss(fl.ones(6, 3), fl.zeros(1, 3))
