"""The optimizer's step comes between forward and backward."""

import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
optimizer = fl.optim.SGD(model.parameters(), lr=0.1)
first = model(fl.ones(2, 4)).sum()
first.backward(retain_graph=True)
optimizer.step()
first.backward()
