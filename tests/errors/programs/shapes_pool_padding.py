"""Padding of more than half of the window."""

import flambeau as fl
from flambeau import nn

nn.MaxPool2d(2, padding=2)(fl.zeros(1, 3, 8, 8))
