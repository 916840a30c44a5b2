"""A running mean in a buffer."""
import flambeau as fl
from flambeau import nn


class Centre(nn.Module):
    mean: fl.Tensor

    def __init__(self, features: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", fl.zeros(features))

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        if self.training:
            with fl.no_grad():
                self.mean.lerp_(x.mean(0), self.momentum)
        return x - self.mean


centre = Centre(3).train()
centre(fl.ones(4, 3))
print(centre.eval().mean, [name for name, _ in centre.named_buffers()])
