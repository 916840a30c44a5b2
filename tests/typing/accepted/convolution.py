"""A convolutional network."""
import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn


class ConvNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4 * 4 * 4, classes)

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        x = self.pool(F.relu(self.norm(self.conv(x))))
        return self.head(x.flatten(1))


print(ConvNet()(fl.randn(2, 1, 8, 8)).shape)
