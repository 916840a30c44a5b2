import flambeau as fl
from flambeau import nn

nn.Sequential(nn.Linear(1, 1), fl.relu)  # error: No overload variant of "Sequential"
nn.Sequential(nn.ReLU())["0"]  # error: No overload variant of "__getitem__"
