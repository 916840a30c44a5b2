"""The state of a recurrent network is carried over without detach()."""

import flambeau as fl
from flambeau import nn

cell = nn.RNNCell(4, 8)
state = fl.zeros(1, 8)
for step in range(2):
    state = cell(fl.ones(1, 4), state)
    loss = state.sum()
    loss.backward()
