"""LayerNorm over sizes that the input does not end with."""

import flambeau as fl
from flambeau import nn

nn.LayerNorm([16, 64])(fl.zeros(4, 16, 32))
