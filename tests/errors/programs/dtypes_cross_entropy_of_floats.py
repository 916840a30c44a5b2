"""Class numbers as floats."""

import flambeau as fl
from flambeau import nn

target = fl.tensor([0.0, 2.0, 1.0])
nn.CrossEntropyLoss()(fl.zeros(3, 4), target)
