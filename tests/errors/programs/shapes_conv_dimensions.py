"""A batch of vectors is given to a two-dimensional convolution."""

import flambeau as fl
from flambeau import nn

nn.Conv2d(3, 8, 3)(fl.zeros(16, 100))
