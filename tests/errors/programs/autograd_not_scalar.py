"""backward() of a loss for each sample."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(3, 1)
loss = nn.MSELoss(reduction="none")(model(fl.ones(4, 3)), fl.zeros(4, 1))
loss.backward()
