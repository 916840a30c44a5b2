"""NumPy's default type meets a model's."""

import numpy as np

import flambeau as fl
from flambeau import nn

data = np.zeros((4, 8))
nn.Sequential(nn.Linear(8, 8), nn.ReLU())(fl.from_numpy(data))
