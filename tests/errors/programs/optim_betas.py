"""A coefficient of Adam that is one."""

import flambeau as fl
from flambeau import nn

fl.optim.AdamW(nn.Linear(2, 2).parameters(), betas=(0.9, 1.0))
