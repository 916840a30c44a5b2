"""A reduction that does not exist."""

import flambeau as fl
from flambeau import nn

nn.MSELoss(reduction="average")(fl.zeros(3), fl.zeros(3))
