"""A row of what was saved is written to."""

import flambeau as fl

x = fl.ones(2, 3, requires_grad=True)
y = x.exp()
loss = (y * y).sum()
y[0] = 0
loss.backward()
