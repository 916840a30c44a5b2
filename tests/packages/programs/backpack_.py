"""backpack: gradients of samples, their norms and variances, diagonals of Hessians and Gauss-Newton, Kronecker factors, products."""
import json

import torch
from backpack import backpack, extend, extensions
from torch import nn


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape)


def filled(net):
    with torch.no_grad():
        for i, p in enumerate(net.double().parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.4)
    return net


def sizes(value):
    return [sizes(v) for v in value] if isinstance(value, (list, tuple)) else [list(value.shape), value.abs().sum().item()]


NETS = {
    "linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)), (5, 3)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)), (5, 1, 8, 8)),
}
KINDS = "BatchGrad BatchL2Grad SumGradSquared Variance DiagGGNExact DiagHessian KFLR KFRA BatchDiagGGNExact BatchDiagHessian GGNMP HMP".split()
out = {}
for net, (make, shape) in NETS.items():
    for kind in KINDS:
        if kind == "KFRA" and net == "convolution":
            continue
        model, loss, extension = extend(filled(make())), extend(nn.CrossEntropyLoss()), getattr(extensions, kind)()
        with backpack(extension):
            loss(model(wave(*shape)), torch.arange(5) % 3).backward()
        values = [getattr(p, extension.savefield) for p in model.parameters()]
        if kind.endswith("MP"):
            values = [product(torch.ones_like(p)[None]) for p, product in zip(model.parameters(), values)]
        out[f"{net} {kind}"] = sizes(values)
print(json.dumps(out))
