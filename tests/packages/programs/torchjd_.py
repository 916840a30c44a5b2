"""torchjd: Jacobians of several losses aggregated into one step, of tasks and of instances, and Gramians alone."""
import json
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchjd import aggregation
from torchjd.autogram import Engine
from torchjd.autojac import backward, jac_to_grad, mtl_backward

torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (1 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.2))
    return model


jacobian, out = wave(3, 8) + 0.2, {}
for kind in (aggregation.Mean(), aggregation.Sum(), aggregation.UPGrad(), aggregation.DualProj(), aggregation.MGDA(), aggregation.AlignedMTL(), aggregation.IMTLG(),
             aggregation.ConFIG(), aggregation.TrimmedMean(1), aggregation.Krum(0, 1), aggregation.Constant(torch.tensor([1.0, 2.0, 3.0]))):  # fmt: skip
    out[type(kind).__name__] = [repr(kind), kind(jacobian).tolist()]
shared = filled(nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU()))
heads = filled(nn.Linear(3, 1)), filled(nn.Linear(3, 1))
step = torch.optim.SGD([*shared.parameters(), *heads[0].parameters(), *heads[1].parameters()], lr=0.1)
for i in range(3):
    features = shared(wave(16, 10, k=0.3 + 0.1 * i))
    losses = [F.mse_loss(head(features)[:, 0], wave(16, k=k)) for head, k in zip(heads, (0.37, 0.9))]
    step.zero_grad()
    mtl_backward(losses, features=features)
    jac_to_grad(shared.parameters(), aggregation.UPGrad())
    step.step()
    out[f"tasks {i}"] = [loss.item() for loss in losses]
model = filled(nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 1)))
step = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    loss = F.mse_loss(model(wave(6, 10))[:, 0], wave(6), reduction="none")
    step.zero_grad()
    backward(loss)
    jac_to_grad(model.parameters(), aggregation.UPGrad())
    step.step()
    out[f"instances {i}"] = loss.mean().item()
model = filled(nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5), nn.ReLU(), nn.Linear(5, 1)))
step, engine, weights = torch.optim.SGD(model.parameters(), lr=0.1), Engine(model, batch_dim=0), aggregation.UPGradWeighting()
for i in range(3):
    loss = F.mse_loss(model(wave(6, 1, 6, 6))[:, 0], wave(6), reduction="none")
    step.zero_grad()
    gramian = engine.compute_gramian(loss)
    loss.backward(weights(gramian))
    step.step()
    out[f"gramian {i}"] = [gramian.sum().item(), loss.mean().item()]
layer = filled(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True))
out["attention"] = Engine(layer, batch_dim=0).compute_gramian(layer(wave(3, 4, 8)).square().sum((1, 2))).tolist()
print(json.dumps(out))
