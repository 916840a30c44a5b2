"""Images reach a Linear layer without being flattened."""

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 26 * 26, 10)

    def forward(self, x):
        x = self.conv(x).relu()
        return self.fc(x)


Net()(fl.zeros(2, 1, 28, 28))
