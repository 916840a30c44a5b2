"""pytorch_optimizer: what each of its optimizers does in four steps, and wrappers of others."""
import json
import math
import warnings

import pytorch_optimizer
import torch
from torch import nn

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
# What draws numbers, takes the sign of what is rounded, has float32 beside float64, or turns by eigenvectors of equal eigenvalues.
OTHERS = {"adahessian", "alice", "fadam", "focus", "gravity", "kron", "magma", "soap", "sophiah"}


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


def trained(make):
    model, losses = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5, bias=False), nn.Tanh(), nn.Linear(5, 1)), []
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.2))
    step = make(model.parameters())
    if hasattr(step, "train"):
        step.train()
    for _ in range(4):
        step.zero_grad()
        loss = (model(wave(6, 1, 6, 6)) - wave(6, 1, k=0.9)).square().mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


out = {}
for name in sorted(set(pytorch_optimizer.get_supported_optimizers()) - OTHERS):
    kind = pytorch_optimizer.load_optimizer(name)
    try:
        out[name] = trained(lambda p: kind(p))  # noqa: B023
    except Exception:  # of the package's: arguments that have no default, groups that it wants
        out[name] = "wants more"
for wrapper in (pytorch_optimizer.Lookahead, pytorch_optimizer.ScheduleFreeWrapper, pytorch_optimizer.TRAC, pytorch_optimizer.OrthoGrad):
    out[wrapper.__name__] = trained(lambda p: wrapper(torch.optim.SGD(p, lr=0.1)))  # noqa: B023
print(json.dumps(out))
