"""The schedule steps before the optimizer."""

import flambeau as fl
from flambeau import nn

optimizer = fl.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
scheduler = fl.optim.lr_scheduler.StepLR(optimizer, step_size=10)
scheduler.step()
optimizer.step()
