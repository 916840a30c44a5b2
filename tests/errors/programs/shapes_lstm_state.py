"""The state of a larger batch is given to a smaller one."""

import flambeau as fl
from flambeau import nn

lstm = nn.LSTM(8, 16, batch_first=True)
state = (fl.zeros(1, 32, 16), fl.zeros(1, 32, 16))
for batch in fl.zeros(50, 5, 8).split(32):
    output, state = lstm(batch, state)
