"""The channels can not be split into so many groups."""

import flambeau as fl
from flambeau import nn

nn.Conv2d(6, 16, 3, groups=4)
