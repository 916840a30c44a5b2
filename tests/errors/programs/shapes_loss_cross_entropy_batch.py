"""Targets of another batch."""

import flambeau as fl
from flambeau import nn

logits = fl.zeros(32, 10)
target = fl.zeros(31, dtype=fl.int64)
nn.CrossEntropyLoss()(logits, target)
