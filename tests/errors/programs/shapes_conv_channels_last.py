"""Images as image libraries load them, with channels last."""

import flambeau as fl
from flambeau import nn

images = fl.rand(8, 32, 32, 3)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16))
model(images)
