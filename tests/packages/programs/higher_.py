"""higher: gradients through steps of nine optimizers, and with respect to a learning rate."""
import json
import math

import higher
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 if p.ndim > 1 else 0.2))
    return model


out = {}
for kind, options in ((torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.05}), (torch.optim.RMSprop, {"lr": 0.01}), (torch.optim.Adagrad, {"lr": 0.05}),
                      (torch.optim.Adadelta, {}), (torch.optim.Adamax, {}), (torch.optim.ASGD, {}), (torch.optim.Rprop, {})):  # fmt: skip
    net = filled(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    inner, outer, losses = kind(net.parameters(), **options), torch.optim.Adam(net.parameters(), lr=1e-2), []
    for _ in range(2):
        outer.zero_grad()
        with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (called, step):
            for _ in range(3):
                step.step((called(wave(6, 3)) - wave(6, 1, k=0.9)).square().mean())
            loss = (called(wave(6, 3, k=0.5)) - wave(6, 1, k=0.8)).square().mean()
            loss.backward()
        outer.step()
        losses.append([loss.item(), sum(p.grad.abs().sum().item() for p in net.parameters())])
    out[kind.__name__] = losses
net, rate = filled(nn.LSTM(3, 4)), torch.tensor(0.1, requires_grad=True)
with higher.innerloop_ctx(net, torch.optim.SGD(net.parameters(), lr=0.1), override={"lr": [rate]}) as (called, step):
    for _ in range(2):
        step.step(called(wave(5, 2, 3))[0].square().sum())
    loss = called(wave(5, 2, 3))[0].square().sum()
    out["rate"] = [loss.item(), torch.autograd.grad(loss, rate)[0].item()]
patched = higher.monkeypatch(filled(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))))
fast = [p * 2 for p in patched.parameters()]
out["patched"] = [patched(wave(1, 1, 4, 4), params=fast).sum().item(), len(list(patched.parameters()))]
print(json.dumps(out))
