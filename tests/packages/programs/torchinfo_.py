"""torchinfo: the summary of a model."""
import json

import torch
from torch import nn
from torchinfo import summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.rnn = nn.LSTM(32, 16, batch_first=True)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.conv(x)
        x = x.permute(0, 3, 1, 2).flatten(2)
        return self.fc(self.rnn(x)[0][:, -1])


stats = summary(Net(), input_size=(2, 1, 8, 6), verbose=0, col_names=('input_size', 'output_size', 'num_params', 'kernel_size', 'mult_adds', 'trainable'))
print(json.dumps({'params': stats.total_params, 'trainable': stats.trainable_params, 'mult_adds': stats.total_mult_adds, 'output': stats.total_output_bytes,
                  'text': str(stats).splitlines()}))
