"""A gradient that is not finite is clipped."""

import flambeau as fl
from flambeau import nn

model = nn.Linear(2, 2)
loss = model(fl.tensor([[1.0, float("inf")]])).sum()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
