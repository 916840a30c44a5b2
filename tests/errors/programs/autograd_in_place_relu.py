"""ReLU in place over what the layer before it needs."""

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

x = fl.ones(2, 3, requires_grad=True)
h = fl.tanh(x)
F.relu(h, inplace=True)
h.sum().backward()
