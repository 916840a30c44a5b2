"""Groups that do not divide the channels."""

import flambeau as fl
from flambeau import nn

nn.GroupNorm(4, 10)
