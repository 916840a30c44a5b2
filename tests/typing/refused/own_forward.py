import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def forward(self, x: fl.Tensor, scale: float) -> fl.Tensor:
        return x * scale


net = Net()
net(fl.ones(2))  # error: Missing positional argument "scale"
net(fl.ones(2), "two")  # error: expected "float"
net(fl.ones(2), 2.0, deep=True)  # error: Unexpected keyword argument "deep"
