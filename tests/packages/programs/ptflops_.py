"""ptflops and thop: operations and parameters of networks, counted by layers; PyTorch's own counter, by modules."""
import contextlib
import io
import json

import thop
import torch
from ptflops import get_model_complexity_info
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet18, vit_b_32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.pool, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 8, 3, groups=2, padding=1)
        self.mean, self.last, self.scale = nn.AdaptiveAvgPool2d(8), nn.Linear(8 * 8 * 8, 10), nn.LayerNorm(10)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = self.up(self.pool(x)) + x[:, :, ::2, ::2] * 2
        x = self.scale(self.last(F.gelu(self.mean(x)).flatten(1)))
        return torch.matmul(x.softmax(-1), x.t()) @ x


MODELS = {
    "net": (Net(), (3, 16, 16)),
    "encoder": (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (5, 16)),
    "lstm": (nn.LSTM(4, 6, 2, bidirectional=True), (5, 4)),
    "resnet": (resnet18(), (3, 64, 64)),
    "vit": (vit_b_32(image_size=64), (3, 64, 64)),
}
out = {}
for name, (model, shape) in MODELS.items():
    model.eval()
    out[name] = list(get_model_complexity_info(model, shape, as_strings=False, print_per_layer_stat=False, backend="pytorch"))
    if name != "vit":
        out[f"{name} thop"] = list(thop.profile(model, (torch.ones(1, *shape),), verbose=False))
text = io.StringIO()
with contextlib.redirect_stdout(text):
    get_model_complexity_info(Net().eval(), (3, 16, 16), print_per_layer_stat=True, ost=text)
out["layers"] = [line.strip() for line in text.getvalue().splitlines() if "Conv2d(" in line or "Linear(" in line]
for name in ("net", "resnet"):
    model, shape = MODELS[name]
    with FlopCounterMode(display=False) as counter:
        model(torch.ones(2, *shape)).sum().backward()
    counts = counter.get_flop_counts()
    out[f"{name} modules"] = [counter.get_total_flops() if name == "resnet" else 0, *[sum(counts[key].values()) for key in sorted(counts) if key.startswith(("ResNet.layer1", "Net.first", "Net.last"))]]
print(json.dumps(out))
