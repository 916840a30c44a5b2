"""An output padding that is not smaller than the stride."""

import flambeau as fl
from flambeau import nn

nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=2)(fl.zeros(1, 8, 4, 4))
