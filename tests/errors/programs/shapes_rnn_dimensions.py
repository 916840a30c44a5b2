"""A GRU is given four dimensions."""

import flambeau as fl
from flambeau import nn

nn.GRU(8, 16)(fl.zeros(2, 3, 4, 8))
