"""A schedule of the wrong thing."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(2, 2)
fl.optim.lr_scheduler.StepLR(model, step_size=10)
