"""Predictions and targets of sizes that have nothing in common."""

import flambeau as fl
from flambeau import nn

nn.MSELoss()(fl.zeros(16, 3), fl.zeros(16, 4))
