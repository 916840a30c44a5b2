"""optimum-quanto: weights and activations of int8, tensors of classes with a `__torch_dispatch__`; calibrated, frozen, saved and loaded."""
import io
import json

import torch
from optimum.quanto import Calibration, freeze, qint8, quantize
from torch import nn


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape).float()


def network():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 3))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.2)
    return net


x = wave(8, 1, 8, 8)
out = {}

net = network()
out["plain"] = net(x).tolist()
quantize(net, weights=qint8)
out["dynamic"] = net(x).tolist()
freeze(net)
out["frozen"] = [net(x).tolist(), [type(p).__name__ for p in net.parameters()]]
net(x).pow(2).sum().backward()
out["gradients"] = [p.grad.tolist() for p in net.parameters() if p.grad is not None and type(p) is nn.Parameter]
state = net.state_dict()
out["state"] = {name: [list(value.shape), str(value.dtype)] for name, value in state.items() if isinstance(value, torch.Tensor)}
file = io.BytesIO()
torch.save(state, file)
file.seek(0)
again = network()
quantize(again, weights=qint8)
again.load_state_dict(torch.load(file, weights_only=False))
out["loaded"] = again(x).tolist()

net = network()
quantize(net, weights=qint8, activations=qint8)
with torch.no_grad(), Calibration(momentum=0.9):
    for k in (0.2, 0.3, 0.4):
        net(wave(8, 1, 8, 8, k=k))
freeze(net)
out["calibrated"] = [net(x).tolist(), net[3].input_scale.item(), net[3].output_scale.item()]
print(json.dumps(out))
