"""schedulefree, prodigyopt, lion-pytorch: optimizers that keep averages, find their rate, or step by signs; saved and resumed."""
import io
import json

import schedulefree
import torch
from lion_pytorch import Lion
from prodigyopt import Prodigy
from torch import nn


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape).float()


def network():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.2)
    return net


x, y = wave(8, 1, 8, 8), torch.arange(8) % 3


def steps(kind, closure=False, **options):
    net, losses = network(), []
    optimizer = kind(net.parameters(), **options)
    mode = {True: getattr(optimizer, "train", lambda: None), False: getattr(optimizer, "eval", lambda: None)}

    def loss():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(net(x), y)
        value.backward()
        return value

    mode[True]()
    for _ in range(6):
        if closure:
            losses.append(float(optimizer.step(loss)))
        else:
            losses.append(loss().item())
            optimizer.step()
    mode[False]()
    losses.append(nn.functional.cross_entropy(net(x), y).item())
    mode[True]()
    if not closure:
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        optimizer = kind(net.parameters(), **options)
        optimizer.load_state_dict(torch.load(file, weights_only=False))
        getattr(optimizer, "train", lambda: None)()
        loss()
        optimizer.step()
        losses.append(nn.functional.cross_entropy(net(x), y).item())
    return losses


out = {}
for name in ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"):
    kind = getattr(schedulefree, name)
    out[name] = steps(kind, lr=0.05)
    out[f"{name} single"] = steps(kind, lr=0.05, foreach=False, weight_decay=0.01, **({} if name.startswith("R") else {"warmup_steps": 3}))
    out[f"{name} closure"] = steps(getattr(schedulefree, f"{name}Closure"), closure=True, lr=0.05)
out["reference"] = steps(schedulefree.AdamWScheduleFreeReference, lr=0.05)
out["wrapped"] = steps(lambda p: schedulefree.ScheduleFreeWrapper(torch.optim.SGD(p, lr=0.05), momentum=0.9))
out["prodigy"] = [steps(Prodigy, lr=1.0), steps(Prodigy, lr=1.0, slice_p=11, use_bias_correction=True, safeguard_warmup=True, weight_decay=0.01)]
out["lion"] = [steps(Lion, lr=1e-3), steps(Lion, lr=1e-3, weight_decay=0.1, betas=(0.8, 0.9))]
print(json.dumps(out))
