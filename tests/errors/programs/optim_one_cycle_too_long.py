"""More steps than the schedule was made for."""

import flambeau as fl
from flambeau import nn

optimizer = fl.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1, momentum=0.9)
scheduler = fl.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=3)
for step in range(4):
    optimizer.step()
    scheduler.step()
