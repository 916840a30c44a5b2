import flambeau as fl
from flambeau import nn

n: int = nn.Linear(2, 2)(fl.ones(2))  # error: expression has type "Tensor", variable has type "int"
