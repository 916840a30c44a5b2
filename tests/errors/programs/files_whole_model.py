"""A model is saved, not its state."""

import flambeau as fl
from flambeau import nn

fl.save(nn.Linear(2, 2), "model.pt")
fl.load("model.pt")
