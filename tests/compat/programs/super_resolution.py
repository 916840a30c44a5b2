from __future__ import print_function
import sys
from math import log10

import numpy as np
import torch
import torch.nn as nn
import torch.nn.init as init
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super(Net, self).__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(16, 16, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(16, upscale_factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        return self.pixel_shuffle(self.conv3(x))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain('relu'))
        init.orthogonal_(self.conv2.weight, init.calculate_gain('relu'))
        init.orthogonal_(self.conv3.weight)


torch.manual_seed(123)
images = torch.tensor(np.load(sys.argv[1])['train_images'], dtype=torch.float32)[:, None] / 16
small = nn.functional.interpolate(images, scale_factor=0.5, mode='bilinear', antialias=True, align_corners=False)
training = DataLoader(TensorDataset(small, images), batch_size=32, shuffle=True)
model = Net(upscale_factor=2)
criterion = nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=0.005)
for epoch in range(1, 5):
    epoch_loss = 0
    for input, target in training:
        optimizer.zero_grad()
        loss = criterion(model(input), target)
        epoch_loss += loss.item()
        loss.backward()
        optimizer.step()
    print("Epoch {} Avg. Loss: {:.4f}".format(epoch, epoch_loss / len(training)))
with torch.no_grad():
    mse = criterion(model(small), images)
    bicubic = criterion(nn.functional.interpolate(small, scale_factor=2, mode='bicubic'), images)
print("PSNR: {:.4f} dB, bicubic {:.4f} dB".format(10 * log10(1 / mse.item()), 10 * log10(1 / bicubic.item())))
