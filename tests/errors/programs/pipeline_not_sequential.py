"""A pipeline of a model that is not a Sequential."""

from flambeau import nn
from flambeau.pipeline import GPipe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)


GPipe(Net(), balance=[1], chunks=2)
