"""Logits are given to a loss that wants probabilities."""

import flambeau as fl
from flambeau import nn

logits = fl.tensor([0.2, 3.5, 0.9])
nn.BCELoss()(logits, fl.ones(3))
