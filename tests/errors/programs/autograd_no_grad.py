"""backward() of what was computed without gradients."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(3, 1)
with fl.no_grad():
    loss = model(fl.ones(2, 3)).sum()
loss.backward()
