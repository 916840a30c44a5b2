"""Binary cross entropy of a column and a vector."""

import flambeau as fl
from flambeau import nn

nn.BCEWithLogitsLoss()(fl.zeros(8, 1), fl.ones(8))
