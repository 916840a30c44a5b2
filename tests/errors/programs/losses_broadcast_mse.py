"""A column and a row: the loss of all pairs."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(4, 1)
prediction = model(fl.ones(8, 4))
target = fl.zeros(8)
nn.MSELoss()(prediction, target)
