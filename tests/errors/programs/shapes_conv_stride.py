"""A stride of zero."""

import flambeau as fl
from flambeau import nn

nn.Conv2d(3, 8, 3, stride=0)(fl.zeros(1, 3, 8, 8))
