"""A pretrained body within another model's state, with names that the body does not miss."""

import flambeau as fl
from flambeau import nn


class Classifier(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.head = nn.Linear(2, 10)


def body():
    return nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))


body().load_state_dict(Classifier(body()).state_dict())
