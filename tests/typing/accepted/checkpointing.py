"""Activations that are computed again."""
import flambeau as fl
from flambeau import nn
from flambeau.utils.checkpoint import checkpoint

layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = fl.ones(2, 4, requires_grad=True)
y: fl.Tensor = checkpoint(layer, x, use_reentrant=False)
y.sum().backward()
print(x.grad is not None)
