import flambeau as fl
from flambeau import nn

fl.nn.Linear(2, 2)("text")  # error: incompatible type "str"; expected "Tensor"
nn.ReLU()()  # error: Missing positional argument "input"
