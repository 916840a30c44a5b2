"""Classes are counted from one."""

import flambeau as fl
from flambeau import nn

target = fl.tensor([3, 10, 1, 7])
nn.CrossEntropyLoss()(fl.zeros(4, 10), target)
